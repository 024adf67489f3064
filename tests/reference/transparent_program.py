"""A program whose stored latents are the bytes of the image, so that a test can tell which image a latent came from."""

from __future__ import annotations

import numpy as np

from everbit.compile.program import Program
from reference.program_builder import ProgramBuilder


def transparent_program(height: int = 1, width: int = 2, channels: int = 4, body: bool = False) -> Program:
    """input -> 8-bit latent [-> RPReLU] -> features. A latent's bytes are the pixels in row-major order."""
    build = ProgramBuilder(np.random.default_rng(0), 16)
    image = build.input(height, width, channels)
    build.layers[-1].arrays["offset"][:] = 255
    out = build.latent(image, 8)
    # code = (q + 255) / 2 of the input's q = 2 u - 255, and back
    build.layers[-1].attributes.update(encode_A=1, encode_B=255, encode_s=1, decode_A=2, decode_B=-255, decode_s=0)
    if body:
        build.rprelu(out, True, True)
    return build.finish()
