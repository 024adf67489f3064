"""Pictures to calibrate on where the user gives none: what the package carries, in colors, at several contrasts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from everbit.data.datasets import load
from everbit.data.images import fit_images

CONTRASTS = (1.0, 0.75, 0.5, 0.25)
NOISE = 0.25
"""Part of the noise in a pattern; the rest is the picture."""


def calibration_patterns(count: int, shape: tuple[int, int, int], seed: int = 0) -> NDArray[np.uint8]:
    """`count` patterns, uint8 [count, *shape]: packaged pictures in random colors, with smooth and with fine noise."""
    rng = np.random.default_rng(seed)
    source = load("fashion_demo").train_images
    chosen = source[rng.integers(0, len(source), count)]
    pictures = fit_images(chosen, (shape[0], shape[1], chosen.shape[3])).mean(axis=3, keepdims=True) / 255
    size = (count, 1, 1, shape[2])
    dark, light = rng.random(size), rng.random(size)
    colored = dark + (light - dark) * pictures
    coarse = rng.integers(0, 256, (count, 8, 8, shape[2]), np.uint8)
    smooth = np.stack([fit_images(coarse[..., c : c + 1], (*shape[:2], 1)) for c in range(shape[2])], axis=-1)
    fine = rng.random((count, *shape))
    noisy = (1 - NOISE) * colored + NOISE * (smooth.reshape(count, *shape) / 255 + fine) / 2
    contrast = np.resize(CONTRASTS, count).reshape(count, 1, 1, 1)
    pixels = ((noisy - 0.5) * contrast + 0.5) * 255
    patterns: NDArray[np.uint8] = pixels.round().clip(0, 255).astype(np.uint8)
    return patterns
