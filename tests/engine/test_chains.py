"""Layers of the frozen part that run as one pass give the bytes that they give one by one."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from everbit import engine
from everbit.compile.image import program_image
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings
from reference.program_builder import ProgramBuilder
from reference.random_program import random_images

PER_CLASS = 3
Shape = tuple[int, int, int, int, int, int, int | str]
SHAPES: list[Shape] = [
    # height, width, channels in, channels out, kernel, stride, padding
    (1, 1, 3, 5, 1, 1, 0),
    (7, 7, 128, 128, 3, 1, 1),
    (9, 30, 37, 64, 3, 1, 1),
    (14, 14, 70, 30, 3, 1, 1),
    (13, 5, 64, 17, 5, 1, "same"),
    (23, 18, 16, 48, 3, 1, 0),
    (12, 12, 65, 33, 3, 2, 1),
    (33, 8, 130, 16, 1, 1, 0),
]

Follow = Callable[[ProgramBuilder, int], int]


def _residual(build: ProgramBuilder, sums: int) -> int:
    """QuickNet's block: clamp, affine, a shortcut of the same shape; then the signs of the next block."""
    tensor = build.tensors[sums]
    out = build.affine(build.clamp(sums, 0.0, 1e6))
    other = build.affine(build.binary_convolution(build.sign(out, False), tensor.channels, False))
    out = build.add(build.add(out, other), out)
    signs = build.sign(out, False)
    return build.add(build.affine(build.binary_convolution(signs, tensor.channels, False, pad_value=1)), out)


def _plain(build: ProgramBuilder, sums: int) -> int:
    """A chain without shortcuts: nobody but a sign reads what the affine gives."""
    signs = build.sign(build.affine(sums), False)
    return build.affine(build.binary_convolution(signs, build.tensors[sums].channels, False, 3, 1, 1, -1))


def _thresholds(build: ProgramBuilder, sums: int) -> int:
    """Signs right on the sums."""
    inner = build.affine(build.binary_convolution(build.sign(sums, False), 40, False))
    return build.affine(build.binary_convolution(build.sign(inner, False), 9, False))


def _pooled(build: ProgramBuilder, sums: int) -> int:
    """Sums that a pool reads are stored as they are."""
    return build.affine(build.max_pool(sums, 1, 1, 0))


FOLLOWS: dict[str, Follow] = {"residual": _residual, "plain": _plain, "thresholds": _thresholds, "pooled": _pooled}


@pytest.mark.parametrize("pad_value", [-1, 0, 1])
@pytest.mark.parametrize("follow", FOLLOWS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_a_chain_gives_what_its_layers_give(shape: Shape, follow: str, pad_value: int, isa: str) -> None:
    height, width, channels, out_channels, kernel, stride, padding = shape
    for q_f, bits in itertools.product((8, 16), (1, 8)):
        rng = np.random.default_rng(q_f + bits)
        build = ProgramBuilder(rng, q_f)
        signs = build.sign(build.frozen_convolution(build.input(height, width, 2), channels), False)
        sums = build.binary_convolution(signs, out_channels, False, kernel, stride, padding, pad_value)
        build.global_average_pool(build.latent(FOLLOWS[follow](build, sums), bits))
        program = build.finish()
        images = random_images(rng, program, PER_CLASS)

        # A network for tests keeps every tensor, and so runs layer by layer.
        options = {"q_bin": 16, "q_nonbin": 16, "classes": 1, "cwr": True, "learning_rates": [(0, 0)] * 5}
        whole = engine.Network(program_image(program), PER_CLASS, options).encode(images)
        learner = Learner(program, Settings("lr", 1, replay_per_class=PER_CLASS), f"{q_f},16,16,{bits}")
        learner.partial_fit(images, ["one"] * PER_CLASS, epochs=1)
        patterns, _ = learner._native.replay()
        assert sorted(map(bytes, patterns)) == sorted(map(bytes, whole))
