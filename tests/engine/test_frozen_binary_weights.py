"""q_bin = 1: no latent weights are kept, so that no gradient of them could move anything; all else learns."""

from __future__ import annotations

import numpy as np
import pytest

from everbit.compile.program import Program
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings
from reference.program_builder import ProgramBuilder
from reference.random_program import random_images

STATE_BYTES = 16  # of the learner: its generator, and its experiences
INPUTS, OUTPUTS = 130, 700
WEIGHTS = 9 * INPUTS * OUTPUTS


def program() -> Program:
    """A binary convolution whose weights outweigh everything else."""
    build = ProgramBuilder(np.random.default_rng(0), 8)
    latent = build.latent(build.frozen_convolution(build.input(9, 7, 1), INPUTS), 1)
    raw = build.binary_convolution(build.sign(latent, True), OUTPUTS, True)
    build.global_average_pool(build.rprelu(build.batch_norm(raw), True, True))
    return build.finish()


PROGRAM = program()


def start(q_bin: int, **options: object) -> Learner:
    settings = {"classes": 3, "replay_per_class": 2, "batch_new": 4, "batch_replayed": 4, **options}
    return Learner(PROGRAM, Settings(**settings), f"8,{q_bin},16,1")  # type: ignore[arg-type]


def aligned(size: int) -> int:
    return -(-size // 64) * 64


def parameter_bytes(kinds: tuple[str, ...]) -> int:
    """Bytes of the learnable parameters of some kinds of layers at 16 bits."""
    layers = [layer for layer in PROGRAM.layers if layer.kind in kinds]
    return sum(aligned(2 * parameter.values.size) for layer in layers for parameter in layer.parameters.values())


def test_the_state_holds_no_latent_weights_and_no_weight_bits() -> None:
    learner = start(1)
    others = parameter_bytes(("batch_norm", "rprelu", "sign"))
    head = aligned(2 * 3 * PROGRAM.features) + aligned(4 * 3)
    rest = learner.memory_use["persistent"] - aligned(STATE_BYTES) - others - head - learner.memory_use["replay"]
    assert 0 <= rest < WEIGHTS // 8
    bits = next(layer for layer in PROGRAM.layers if layer.kind == "binary_convolution" and layer.parameters)
    with_latent = start(16).memory_use["persistent"]
    assert with_latent - learner.memory_use["persistent"] == aligned(2 * WEIGHTS) + aligned(bits.arrays["bits"].nbytes)


@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_everything_else_learns(rounding: str) -> None:
    learner = start(1, rounding=rounding, learning_rates={"norm": 1.0, "bias": 1.0})
    before = np.frombuffer(learner.state, np.uint8)
    learner.partial_fit(random_images(np.random.default_rng(1), PROGRAM, 8), [0, 1] * 4)
    after = np.frombuffer(learner.state, np.uint8)
    changed = np.flatnonzero(before != after)
    body = aligned(STATE_BYTES) + parameter_bytes(("batch_norm", "rprelu", "sign"))
    assert ((changed >= aligned(STATE_BYTES)) & (changed < body)).any()
