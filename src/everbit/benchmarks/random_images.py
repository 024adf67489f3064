"""Images of noise: no measured time depends on what an image shows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from everbit.zoo.cuts import INPUT_SHAPE

SEED = 0


def random_images(count: int) -> NDArray[np.uint8]:
    """uint8 [count, 32, 32, 3], the same ones every time."""
    return np.random.default_rng(SEED).integers(0, 256, (count, *INPUT_SHAPE), np.uint8)


def cyclic_labels(count: int, classes: int, first: int = 0) -> NDArray[np.int32]:
    """first, first + 1, .. each modulo `classes`: int32 [count]."""
    return (np.arange(first, first + count) % classes).astype(np.int32)
