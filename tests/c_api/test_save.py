"""Saved learners go on where they stopped; what is damaged, or another's, is refused."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from c_api.conftest import SMALL, image_of
from c_api.library import Callback, CLearner, RefusedError
from c_api.test_errors import BAD_STATE, NOT_READ, NOT_WRITTEN
from everbit._engine import digest

OPTIONS = {"classes": 3, "replay_slots": 6, "replay_per_class": 2, "experience_patterns": 8, "stochastic_rounding": 1}
HEADER = 64


def pictures(seed: int, count: int = 8) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 6, 5, 3), dtype=np.uint8)


def make(library: ctypes.CDLL, **options: object) -> CLearner:
    return CLearner(library, image_of(SMALL), **{**OPTIONS, **options})


def learn(learner: CLearner, seed: int) -> None:
    learner.observe(pictures(seed), [seed % 3, (seed + 1) % 3] * 4)
    learner.train(2)


def test_a_restored_learner_never_stopped(library: ctypes.CDLL) -> None:
    one, other = make(library), make(library, seed=99, batch_new=5)
    learn(one, 1)
    saved = one.save()
    assert len(saved) == library.everbit_saved_bytes(one.handle)
    learn(other, 7)
    other.observe(pictures(8, 3), [0, 1, 2])  # forgotten
    other.restore(saved)
    assert other.digest == one.digest
    assert other.save() == saved
    resumed = make(library)
    resumed.restore(saved)
    learn(one, 2)
    learn(resumed, 2)
    assert resumed.digest == one.digest
    assert resumed.predict(pictures(3)[0])[1].tolist() == one.predict(pictures(3)[0])[1].tolist()


def test_what_is_saved_holds_the_state_alone(library: ctypes.CDLL) -> None:
    learner = make(library)
    assert len(learner.save()) == HEADER + learner.memory.state


@pytest.mark.parametrize("place", [0, 8, 12, 16, 24, 32, 40, 48, 63, 64, 700, -1])
def test_damaged_bytes_are_refused(library: ctypes.CDLL, place: int) -> None:
    learner, fresh = make(library), make(library)
    learn(learner, 1)
    damaged = bytearray(learner.save())
    damaged[place] ^= 0x80
    before = learner.digest
    with pytest.raises(RefusedError) as caught:
        learner.restore(bytes(damaged))
    assert caught.value.status == BAD_STATE
    header_refused = 0 <= place < HEADER and not 40 <= place < 48
    assert learner.digest == (before if header_refused else fresh.digest)
    learn(learner, 2)  # it is still a learner


@pytest.mark.parametrize(("length", "kept"), [(0, True), (63, True), (64, False), (200, False), (-1, False)])
def test_bytes_that_end_too_early(library: ctypes.CDLL, length: int, kept: bool) -> None:
    learner, fresh = make(library), make(library)
    learn(learner, 1)
    saved, before = learner.save(), learner.digest
    with pytest.raises(RefusedError) as caught:
        learner.restore(saved[:length])
    assert caught.value.status == NOT_READ
    assert learner.digest == (before if kept else fresh.digest)


OTHERS = {
    "classes": {"classes": 4},
    "replay_slots": {"replay_slots": 5},
    "replay_per_class": {"replay_per_class": 1},
    "binary_bits": {"binary_bits": 8},
    "other_bits": {"other_bits": 32},
    "train_body": {"train_body": 0},
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_options_are_refused(library: ctypes.CDLL, name: str) -> None:
    one, other = make(library), make(library, **OTHERS[name])
    learn(one, 1)
    before = other.digest
    with pytest.raises(RefusedError, match=name) as caught:
        other.restore(one.save())
    assert caught.value.status == BAD_STATE
    assert other.digest == before


def test_another_program_is_refused(library: ctypes.CDLL) -> None:
    one = CLearner(library, image_of("layer_add"), **OPTIONS)
    other = CLearner(library, image_of("layer_clamp"), **OPTIONS)
    with pytest.raises(RefusedError, match="another program"):
        other.restore(one.save())


def test_a_state_that_the_replay_memory_cannot_have(library: ctypes.CDLL) -> None:
    """Sound bytes, their digest included, but a latent of a class that nobody has."""
    one, other = make(library), make(library)
    learn(one, 1)
    forged = bytearray(one.save())
    labels, state_digest = slice(-128, -126), slice(40, 48)
    forged[labels] = (9).to_bytes(2, "little")
    forged[state_digest] = digest(bytes(forged[HEADER:])).to_bytes(8, "little")
    with pytest.raises(RefusedError, match="a class beyond the learner's") as caught:
        other.restore(bytes(forged))
    assert caught.value.status == BAD_STATE
    assert other.digest == make(library).digest


@pytest.mark.parametrize("calls", [0, 1])
def test_a_write_that_fails(library: ctypes.CDLL, calls: int) -> None:
    learner = make(library)
    learn(learner, 1)
    before, left = learner.digest, calls

    def write(_context: object, _start: int, _size: int) -> int:
        nonlocal left
        left -= 1
        return 0 if left >= 0 else 5

    assert library.everbit_save(learner.handle, Callback(write), None) == NOT_WRITTEN
    assert learner.digest == before
