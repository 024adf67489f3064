"""Images of ten color patterns that a small model tells apart at once, and Avalanche benchmarks of them."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import TensorDataset

CLASSES = 10
SIDE = 8


def colored_images(per_class: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Noise around one pattern of each class, uint8 [10 * per_class, 8, 8, 3], and the classes."""
    patterns = np.random.default_rng(0).integers(40, 216, (CLASSES, SIDE, SIDE, 3))
    labels = np.arange(CLASSES * per_class) % CLASSES
    noise = np.random.default_rng(seed).integers(-40, 41, (len(labels), SIDE, SIDE, 3))
    return (patterns[labels] + noise).astype(np.uint8), labels


def tensor_dataset(images: NDArray[np.uint8], labels: NDArray[np.int64], as_floats: bool = False) -> TensorDataset:
    """The images as tensors [N, C, H, W], uint8 or floats in 0..1."""
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2)
    dataset = TensorDataset(pixels.float() / 255 if as_floats else pixels, torch.from_numpy(labels))
    dataset.targets = labels.tolist()  # type: ignore[attr-defined]
    return dataset
