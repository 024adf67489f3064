"""MNIST and Fashion-MNIST from their IDX files: dimensions as big-endian integers, then the bytes."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everbit.data.archives.arrays import Arrays

FILES = {
    "train_images": "train-images-idx3-ubyte.gz",
    "train_labels": "train-labels-idx1-ubyte.gz",
    "test_images": "t10k-images-idx3-ubyte.gz",
    "test_labels": "t10k-labels-idx1-ubyte.gz",
}
FASHION = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def mnist(files: Mapping[str, Path]) -> Arrays:
    """The arrays of MNIST, 28x28 gray."""
    return {key: read_idx(files[file]) for key, file in FILES.items()}


def fashion_mnist(files: Mapping[str, Path]) -> Arrays:
    """The arrays of Fashion-MNIST, 28x28 gray."""
    return mnist(files) | {"label_names": np.array(FASHION)}


def read_idx(path: Path) -> NDArray[Any]:
    """The uint8 array of a gzipped IDX file, of any dimensions. Raises ValueError where it is none."""
    with gzip.open(path) as file:
        content = file.read()
    if content[:3] != b"\0\0\x08":
        raise ValueError(f"{path.name} is no IDX file of bytes")
    dimensions = content[3]
    shape = np.frombuffer(content, ">u4", dimensions, offset=4).tolist()
    pixels: NDArray[Any] = np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)
    return pixels
