"""Augmentation of training batches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def pad_crop_flip(images: NDArray[np.uint8], generator: np.random.Generator, pad: int = 4) -> NDArray[np.uint8]:
    """Shift each image by up to ``pad`` pixels either way and mirror half of them.

    ``images`` is uint8 [N, H, W, channels], the result a new array like it. Each image gets ``pad`` black pixels on
    every side, then a random H x W crop, then a left-right flip with probability 1/2. For training on CIFAR-like images
    only, where a mirrored object is of the same class.
    """
    count, height, width, _ = images.shape
    padded = np.pad(images, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    top, left = generator.integers(0, 2 * pad + 1, size=(2, count, 1))
    flipped = generator.integers(0, 2, size=(count, 1)) == 1
    rows = top + np.arange(height)
    columns = left + np.where(flipped, np.arange(width)[::-1], np.arange(width))
    augmented: NDArray[np.uint8] = padded[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return augmented
