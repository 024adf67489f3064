"""However many threads work, they learn the same bytes."""

from __future__ import annotations

import functools
import hashlib
import os
import signal
import time
from pathlib import Path

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


def test_a_memory_limit_is_that_of_one_thread(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The same patterns are replayed and the same bytes learned; a learner may go on with another number of threads."""
    program = random_program(np.random.default_rng(3), q_f=8, latent_bits=1, channels=67, height=16, width=16, blocks=2)
    images = random_images(np.random.default_rng(4), program, 16)
    states = []
    for threads in ("1", "2", "8"):
        monkeypatch.setenv("EVERBIT_THREADS", threads)
        settings = Settings("lr", 2, batch_new=4, batch_replayed=8, experience_images=8, memory=6_000_000)
        learner = Learner(program, settings, "8,16,16,1").partial_fit(images[:8], [0, 1] * 4, epochs=2)
        learner.save(tmp_path / "one.learner")
        monkeypatch.setenv("EVERBIT_THREADS", "3")
        again = Learner.load(tmp_path / "one.learner").partial_fit(images[8:], [0, 1] * 4, epochs=2)
        states.append(again.state)
    assert states[0] == states[1] == states[2]


def test_a_forked_child_learns_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads do not live on in a child, which must not wait for them."""
    monkeypatch.setenv("EVERBIT_THREADS", "2")
    expected = states("8,16,16,1")
    child = os.fork()
    if child == 0:
        os._exit(0 if states("8,16,16,1") == expected else 1)
    for _ in range(600):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child hangs")
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize("value", ["0", "-1", "257", "two", "1.5"])
def test_a_senseless_number_of_threads_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERBIT_THREADS", value)
    with pytest.raises(ConfigurationError, match="set it to a number from 1 to 256, or unset it"):
        engine.threads()
