"""A small sound program with every kind of layer, and what a test needs to attack it."""

from __future__ import annotations

import numpy as np
import pytest

from attacks.image_fields import ImageFields
from everbit import engine
from everbit.compile.image import program_image
from everbit.compile.operations import PARAMETER_KINDS
from everbit.compile.program import Program
from reference.program_builder import ProgramBuilder

INT32_LEAST, INT32_MOST = -(2**31), 2**31 - 1


def every_layer(q_f: int = 8) -> Program:
    """Small, with every kind of layer: two signs with and without bias, all kinds of convolution, all pools.

    Behind each window stands a layer that keeps its shape: another window could not tell how many there are.
    """
    build = ProgramBuilder(np.random.default_rng(0), q_f)
    out = build.clamp(build.frozen_convolution(build.affine(build.input(6, 6, 2)), 3), -1, 1)
    out = build.clamp(build.frozen_depthwise(out), -1, 1)
    out = build.affine(build.binary_convolution(build.sign(out, False), 3, False))
    out = build.latent(out, 4)
    out = build.rprelu(out, True, True)
    out = build.add(build.batch_norm(build.binary_convolution(build.sign(out, True, True), 3, True)), out)
    out = build.concat(out, build.batch_norm(build.learnable_depthwise(out)))
    out = build.max_pool(build.batch_norm(build.learnable_convolution(out, 3)), 3, 1, 1)
    out = build.average_pool(build.clamp(out, -1, 1))
    out = build.blur_pool(build.clamp(out, -1, 1), 2, "same")
    out = build.global_max_pool(build.clamp(out, -1, 1))
    build.global_average_pool(build.flatten(out))
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


def learns(image: bytes, classes: int = 2, q_nonbin: int = 16) -> None:
    """A whole experience of the engine's learner on an image."""
    options = {"q_bin": 16, "q_nonbin": q_nonbin, "classes": classes, "replay_slots": 4, "replay_per_class": 2}
    options |= {"experience_patterns": 4, "batch_new": 2, "batch_replayed": 2, "cwr": True, "train_body": True}
    options |= {"count_replayed": True, "stochastic_rounding": False, "seed": 0}
    options |= {"learning_rates": [(2**30, -3)] * len(PARAMETER_KINDS)}
    learner = engine.NativeLearner(image, options)
    tensor = ImageFields(image)
    shape = tuple(tensor[f"tensor.{tensor['layer.0.output']}.{side}"] for side in ("height", "width", "channels"))
    for _ in range(2):
        learner.add(np.zeros((2, *shape), np.uint8), np.arange(2, dtype=np.int32))
        for _ in range(learner.begin_training(1)):
            learner.train_step()
        learner.end_experience()
    learner.logits(np.zeros((1, *shape), np.uint8))
