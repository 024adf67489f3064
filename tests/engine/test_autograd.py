"""The engine's backward pass against PyTorch float64 autograd of the same network, within the stated bound."""

from __future__ import annotations

import numpy as np
import pytest

from everbit import engine
from everbit.compile.image import program_image

torch = pytest.importorskip("torch")

from reference.fixed_point import quantize  # noqa: E402
from reference.float_program import FloatProgram  # noqa: E402
from reference.network import ReferenceNetwork  # noqa: E402
from reference.random_program import random_images, random_program  # noqa: E402
from reference.test_reference import layers_above  # noqa: E402

BATCH = 6
RATES = [(0, 0)] * 5  # nothing moves: only gradients are compared


@pytest.mark.parametrize("q_nonbin", [8, 16, 32])
@pytest.mark.parametrize("seed", range(6))
def test_gradients_follow_autograd(seed: int, q_nonbin: int) -> None:
    """Within 2 * 2^-(min(q_b, 16) - 1) of a tensor's largest gradient for each layer passed.

    The bound is that of docs/arithmetic.md, section 4.
    """
    rng = np.random.default_rng(seed)
    program = random_program(rng, q_f=8)
    images = random_images(rng, program, BATCH)
    options = {"q_bin": 8, "q_nonbin": q_nonbin, "classes": 2, "cwr": True, "learning_rates": RATES}
    native = engine.Network(program_image(program), BATCH, options)
    native.forward(native.encode(images))

    like = ReferenceNetwork(program, 8, q_nonbin)  # the float network takes its parameters and its latents from here
    like.learnable_forward(like.frozen_forward(images))
    features = program.layers[-1].output
    gradient = quantize(rng.normal(0, 2.0**40, like.activations[features].shape).astype(np.int64), -40, q_nonbin)
    floats = FloatProgram(like)
    floats.backward(gradient)
    native.backward(gradient.values.ravel().astype(np.int64), int(gradient.exponent))

    passed, step = layers_above(like), 2.0 ** -(min(q_nonbin, 16) - 1)
    compared = 0
    for tensor, layers in passed.items():
        found = native.gradient(tensor) if floats.tensors[tensor].grad is not None else None
        if found is None:
            continue
        expected = floats.tensors[tensor].grad.numpy().ravel()
        actual = found[0].astype(np.float64) * 2.0 ** found[1]
        assert np.abs(actual - expected).max() <= 2 * layers * step * np.abs(expected).max()
        compared += 1
    assert compared >= 3
