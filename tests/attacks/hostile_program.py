"""A small sound program with every kind of layer, and what a test needs to attack it."""

from __future__ import annotations

import numpy as np
import pytest

from attacks.image_fields import ImageFields
from everbit import engine
from everbit.compile.image import program_image
from everbit.compile.program import Program
from reference.program_builder import ProgramBuilder

INT32_LEAST, INT32_MOST = -(2**31), 2**31 - 1


def every_layer(q_f: int = 8) -> Program:
    """Small, with every kind of layer: two signs with and without bias, both kinds of convolution, all pools."""
    build = ProgramBuilder(np.random.default_rng(0), q_f)
    out = build.frozen_convolution(build.input(6, 6, 2), 3)
    out = build.affine(build.binary_convolution(build.sign(out, False), 3, False))
    out = build.latent(out, 4)
    out = build.rprelu(out, True, True)
    out = build.add(build.batch_norm(build.binary_convolution(build.sign(out, True, True), 3, True)), out)
    out = build.average_pool(build.max_pool(build.batch_norm(build.learnable_convolution(out, 3)), 3, 1, 1))
    build.global_average_pool(out)
    return build.finish()


PROGRAM = every_layer()
IMAGE = program_image(PROGRAM)
LAYERS = [layer.kind for layer in PROGRAM.layers]


def fields() -> ImageFields:
    """The image, ready to be changed."""
    return ImageFields(IMAGE)


def refused(image: bytes, message: str = "") -> None:
    """Fails unless the engine refuses an image with a message that matches."""
    with pytest.raises(ValueError, match=message or "."):
        engine.check_program(image)


def at(kind: str, last: bool = False) -> int:
    """Index of a layer of a kind."""
    return (len(LAYERS) - 1 - LAYERS[::-1].index(kind)) if last else LAYERS.index(kind)
