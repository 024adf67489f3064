"""The same seed gives the same bytes; a learner saved and loaded, or interrupted, goes on as if nothing happened."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from everbit.learner.learner import Learner
from everbit.learner.settings import Settings
from reference.random_program import random_images, random_program

PROGRAM = random_program(
    np.random.default_rng(4), q_f=8, latent_bits=2, channels=5, height=5, width=4, blocks=2, downsample=False
)
EXPERIENCES: list[list[object]] = [["a", "b", "a"], ["c"], [("d", 1), "a", ("d", 1), 2.5, "a"], ["b", "c", "c", 7]]


def start(seed: int = 0, **options: object) -> Learner:
    small = {
        "classes": 6,
        "replay_per_class": 2,
        "batch_new": 2,
        "batch_replayed": 3,
        "learning_rates": {"binary": 0.3},
    }
    return Learner(PROGRAM, Settings(**{**small, "seed": seed, **options}))  # type: ignore[arg-type]


def images(place: int) -> NDArray[np.uint8]:
    return random_images(np.random.default_rng(place), PROGRAM, len(EXPERIENCES[place]))


def learn(learner: Learner, place: int, **options: object) -> Learner:
    return learner.partial_fit(images(place), EXPERIENCES[place], **{"epochs": 2, **options})  # type: ignore[arg-type]


def whole_run(seed: int = 0) -> list[bytes]:
    """The state after each experience of a learner that was never stopped."""
    learner = start(seed)
    return [learn(learner, place).state for place in range(len(EXPERIENCES))]


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**64 - 1))
def test_the_same_seed_gives_the_same_bytes(seed: int) -> None:
    assert whole_run(seed) == whole_run(seed)


def test_another_seed_gives_other_bytes() -> None:
    runs = {b"".join(whole_run(seed)) for seed in (0, 1, 2, 2**63)}
    assert len(runs) == 4


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    stops=st.sets(st.integers(0, len(EXPERIENCES))),
    memory=st.sampled_from([None, "40KB", "100 kB"]),
    rounding=st.sampled_from(["nearest", "stochastic"]),
)
def test_saved_and_loaded_is_never_stopped(stops: set[int], memory: str | None, rounding: str, tmp_path: Path) -> None:
    path = tmp_path / "one learner, 100% #1?.learner"
    learner, other = (start(memory=memory, rounding=rounding) for _ in range(2))
    for place in range(len(EXPERIENCES) + 1):
        if place in stops:
            learner.save(path)
            learner = Learner.load(path)
        if place < len(EXPERIENCES):
            learn(learner, place)
            learn(other, place)
        assert learner.state == other.state
        assert learner.classes_ == other.classes_
        assert learner.memory_use == other.memory_use
        assert (learner.settings, learner.widths) == (other.settings, other.widths)


@settings(max_examples=20, deadline=None)
@given(
    place=st.integers(0, len(EXPERIENCES) - 1),
    stop=st.integers(1, 6),
    error=st.sampled_from([KeyboardInterrupt, OSError]),
)
def test_an_interrupted_experience_changes_nothing(place: int, stop: int, error: type[BaseException]) -> None:
    learner, other = start(), start()
    for before in range(place):
        learn(learner, before)
        learn(other, before)

    def interrupt(step: int, steps: int, accuracy: float) -> None:
        if step == min(stop, steps):
            raise error

    with pytest.raises(error):
        learn(learner, place, progress=interrupt)
    for after in range(place, len(EXPERIENCES)):
        assert learner.state == other.state
        assert learner.classes_ == other.classes_
        learn(learner, after)
        learn(other, after)
    assert learner.predict(images(0)) == other.predict(images(0))


def test_a_larger_experience_finds_room_and_the_same_state() -> None:
    learner, other = start(experience_images=2), start(experience_images=50)
    for place in range(len(EXPERIENCES)):
        assert learn(learner, place).state == learn(other, place).state


def test_looking_at_a_learner_changes_nothing() -> None:
    learner, other = start(), start()
    for place in range(len(EXPERIENCES)):
        learn(learner, place, progress=lambda *_: learner.classes_ and learner.predict_proba(images(0)))
        learn(other, place)
        learner.predict(images(2))
        assert learner.state == other.state


def test_predicting_in_another_thread_disturbs_nothing() -> None:
    learner, other = learn(start(), 0), learn(start(), 0)
    with ThreadPoolExecutor(1) as pool:
        learning = pool.submit(learn, learner, 2, epochs=200)
        while not learning.done():
            assert set(learner.predict(images(1))) <= set(learner.classes_)
    learn(other, 2, epochs=200)
    assert learning.result().state == other.state
