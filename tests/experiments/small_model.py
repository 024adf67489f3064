"""A model that learns color images in no time: one binary convolution after a cut at a quarter of the size."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from everbit.compile.program import Program
from everbit.formats.model_file import save_program
from reference.program_builder import ProgramBuilder


def small_program(side: int = 32, channels: int = 64) -> Program:
    """Convolution by 4, one-bit latent [side / 4, side / 4, channels], one residual block, global average pool."""
    build = ProgramBuilder(np.random.default_rng(1), 8)
    image = build.input(side, side, 3)
    latent = build.latent(build.frozen_convolution(image, channels, kernel=4, stride=4, padding=0), 1)
    raw = build.binary_convolution(build.sign(latent, True), channels, True)
    build.global_average_pool(build.add(build.batch_norm(raw), latent))
    return build.finish()


def write_small_model(folder: Path, side: int = 32) -> Path:
    """The path of a model file of `small_program`."""
    path = folder / f"small{side}.everbit"
    save_program(small_program(side), path)
    return path
