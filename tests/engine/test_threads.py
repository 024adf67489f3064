"""However many threads work, they learn the same bytes."""

from __future__ import annotations

import functools
import hashlib

import numpy as np
import pytest

from everbit import engine
from everbit.errors import ConfigurationError
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings
from reference.random_program import random_images, random_program

WIDTHS = ["8,16,16,1", "8,8,8,4", "16,1,16,1", "8,4,32,2", "32,32,32,16"]


def states(widths: str, rounding: str = "nearest") -> list[str]:
    """Digest of the state after two experiences on mini-batches large enough for every loop to be shared out."""
    q_f, _, _, latent = (int(part) for part in widths.split(","))
    rng = np.random.default_rng(11)
    program = random_program(rng, q_f=q_f, latent_bits=latent, channels=67, height=16, width=16, blocks=2)
    settings = Settings("lr", 4, replay_per_class=6, batch_new=12, batch_replayed=20, rounding=rounding)
    learner = Learner(program, settings, widths)
    digests = []
    for labels in ([0, 1] * 6, [2, 3] * 6):
        learner.partial_fit(random_images(rng, program, len(labels)), labels, epochs=2)
        digests.append(hashlib.sha256(learner.state).hexdigest())
    return digests


@functools.cache
def states_of_one_thread(widths: str) -> list[str]:
    return states(widths)


@pytest.mark.parametrize("threads", [2, 3, 8])
@pytest.mark.parametrize("widths", WIDTHS)
def test_threads_learn_the_same_bytes(widths: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERBIT_THREADS", "1")
    expected = states_of_one_thread(widths)
    assert len(set(expected)) == 2
    monkeypatch.setenv("EVERBIT_THREADS", str(threads))
    assert states(widths) == expected


def test_threads_round_at_random_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERBIT_THREADS", "1")
    expected = states("8,16,16,1", "stochastic")
    monkeypatch.setenv("EVERBIT_THREADS", "3")
    assert states("8,16,16,1", "stochastic") == expected != states_of_one_thread("8,16,16,1")


@pytest.mark.parametrize("value", ["0", "-1", "257", "two", "1.5"])
def test_a_senseless_number_of_threads_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERBIT_THREADS", value)
    with pytest.raises(ConfigurationError, match="set it to a number from 1 to 256, or unset it"):
        engine.threads()
