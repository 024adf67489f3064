"""However many threads work, they learn the same bytes."""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from everbit import engine
from everbit.compile.program import Program
from everbit.errors import ConfigurationError
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings
from reference.program_builder import ProgramBuilder
from reference.random_program import random_images, random_program

WIDTHS = ["8,16,16,1", "8,8,8,4", "16,1,16,1", "8,4,32,2", "32,32,32,16"]


def residual(rng: np.random.Generator, q_f: int, latent_bits: int) -> Program:
    return random_program(rng, q_f=q_f, latent_bits=latent_bits, channels=67, height=16, width=16, blocks=2)


def convolutions(rng: np.random.Generator, q_f: int, latent_bits: int) -> Program:
    """Ordinary, grouped and depthwise ones, frozen and learnable, each on the numbers of an RPReLU."""
    build = ProgramBuilder(rng, q_f)
    out = build.frozen_convolution(build.input(12, 12, 3), 36)
    if q_f < 32:  # biases have 32 bits
        out = build.frozen_depthwise(build.frozen_convolution(out, 36, groups=3))
    out = build.rprelu(build.latent(out, latent_bits), True, True)
    out = build.rprelu(build.learnable_convolution(out, 40, 3, 1, 1), False, True)
    out = build.rprelu(build.learnable_depthwise(out), True, False)
    out = build.rprelu(build.learnable_convolution(out, 48, 3, 2, "same", groups=2), True, True)
    build.global_average_pool(build.rprelu(build.learnable_convolution(out, 70), True, True))
    return build.finish()


def pools(rng: np.random.Generator, q_f: int, latent_bits: int) -> Program:
    """Every pool, a clamp, a concat, signs with a learned bias, flattened values and bits."""
    build = ProgramBuilder(rng, q_f)
    out = build.latent(build.frozen_convolution(build.input(12, 12, 3), 48), latent_bits)
    out = build.clamp(build.rprelu(out, True, True), -1.0, 1.0)
    pooled = [build.max_pool(out, 3, 1, 1), build.blur_pool(out, 1), build.average_pool(out, 3, 1, 1, True)]
    out = build.concat(build.concat(*pooled[:2]), build.average_pool(pooled[2], 3, 1, 1))
    signs = build.sign(build.rprelu(out, True, False), True, True, 1)
    out = build.rprelu(build.binary_convolution(signs, 40, True), True, True)
    out = build.average_pool(build.max_pool(out, 2, 1, 0), 3, 2, "same")
    whole = build.global_max_pool(out)
    flat = build.learnable_convolution(build.flatten(out), 40)
    signs = build.flatten(build.sign(build.rprelu(out, True, True), True, True))
    binary = build.batch_norm(build.binary_convolution(signs, 40, True, 1, 1, 0))
    build.concat(build.concat(build.batch_norm(flat), binary), whole)
    return build.finish()


def even(rng: np.random.Generator, q_f: int, latent_bits: int) -> Program:
    """An even number of channels: rows of 4-bit weights begin on whole bytes."""
    return random_program(rng, q_f=q_f, latent_bits=latent_bits, channels=66, height=16, width=16, blocks=2)


PROGRAMS = {"residual": residual, "convolutions": convolutions, "pools": pools, "even": even}


def states(widths: str, rounding: str = "nearest", kind: str = "residual") -> list[str]:
    """Digest of the state after two experiences on mini-batches large enough for every loop to be shared out."""
    q_f, _, _, latent = (int(part) for part in widths.split(","))
    rng = np.random.default_rng(11)
    program = PROGRAMS[kind](rng, q_f, latent)
    settings = Settings("lr", 4, replay_per_class=6, batch_new=12, batch_replayed=20, rounding=rounding)
    learner = Learner(program, settings, widths)
    digests = []
    for labels in ([0, 1] * 6, [2, 3] * 6):
        learner.partial_fit(random_images(rng, program, len(labels)), labels, epochs=2)
        digests.append(hashlib.sha256(learner.state).hexdigest())
    return digests


@functools.cache
def states_of_one_thread(widths: str, kind: str = "residual") -> list[str]:
    return states(widths, kind=kind)


@pytest.mark.parametrize("threads", [2, 3, 8])
@pytest.mark.parametrize(
    ("kind", "widths"),
    [
        *(("residual", widths) for widths in WIDTHS),
        *itertools.product(("convolutions", "pools"), ("8,16,16,8", "32,8,32,8")),
        *itertools.product(("even",), ("8,4,16,1", "8,4,32,2")),
    ],
)
def test_threads_learn_the_same_bytes(kind: str, widths: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERBIT_THREADS", "1")
    expected = states_of_one_thread(widths, kind)
    assert len(set(expected)) == 2
    monkeypatch.setenv("EVERBIT_THREADS", str(threads))
    assert states(widths, kind=kind) == expected


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
