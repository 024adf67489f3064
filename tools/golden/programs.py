"""Tiny programs for the selftest: one for every kind of layer, and whole networks in the style of Bi-Real Net."""

from __future__ import annotations

from everbit.compile.image import program_image
from everbit.compile.program import Program
from golden.draws import program_numbers
from reference.program_builder import ProgramBuilder
from reference.random_program import SINGLE_LAYERS, single_layer_program

CHANNELS = {"binary_convolution": 65}  # before the layer: more than a word of bits


def layer_program(kind: str, q_f: int) -> Program:
    """The smallest of eight programs around the layer `kind` (a key of SINGLE_LAYERS)."""
    shape = {"latent_bits": 4, "channels": CHANNELS.get(kind, 9), "height": 5, "width": 4}
    programs = [single_layer_program(kind, program_numbers(seed), q_f=q_f, **shape) for seed in range(8)]
    return min(programs, key=lambda program: len(program_image(program)))


def residual_program(seed: int, q_f: int, latent_bits: int, channels: int) -> Program:
    """A residual network on 7 x 6 images of 3 channels that has every layer of Bi-Real Net and of ReActNet.

    Odd sizes; the second stage has 3 channels more than the first.
    """
    build = ProgramBuilder(program_numbers(seed), q_f)
    out = build.frozen_convolution(build.input(7, 6, 3), channels)
    frozen = build.binary_convolution(build.sign(out, False), channels, False, 3, 1, 1, 0)
    out = build.latent(build.add(build.affine(frozen), out), latent_bits)

    plain = build.binary_convolution(build.sign(out, True, False, 1), channels, True, 3, 1, 1, 0)
    out = build.rprelu(build.add(build.batch_norm(plain), out), True, True)
    out = build.max_pool(out, 2, 1, 0)  # 6 x 5

    wide = channels + 3
    halved = build.binary_convolution(build.sign(out, True, True, 0), wide, True, 3, 2, 0, 1)  # 2 x 2
    pooled = build.average_pool(build.max_pool(out, 2, 1, 0))  # 5 x 4, then 2 x 2
    shortcut = build.batch_norm(build.learnable_convolution(pooled, wide))
    build.global_average_pool(build.add(build.batch_norm(halved), shortcut))
    return build.finish()


LAYER_KINDS = tuple(SINGLE_LAYERS)
