"""The images that a project carries: to learn from, as latents and as they are, and to test with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everbit.data.dataset import Dataset
from everbit.data.images import fit_images
from everbit.errors import ConfigurationError

Images = NDArray[np.uint8]


@dataclass(frozen=True)
class Samples:
    """Images uint8 [N, H, W, C] by what they are for, with their classes 0..len(names)-1. `first` are stored as
    latents and make the first experience, `second` as images."""

    names: tuple[str, ...]
    first: tuple[Images, list[int]]
    second: tuple[Images, list[int]]
    tests: tuple[Images, list[int]]


def choose_samples(dataset: Dataset, shape: tuple[int, int, int], classes: int, count: int, tests: int) -> Samples:
    """`count` training images and `tests` test images of each of the first classes of a data set, in a model's shape.

    Classes take turns. Raises ConfigurationError where the data set has too few.
    """
    if classes > len(dataset.class_names):
        raise ConfigurationError(
            f"{dataset.name} has {len(dataset.class_names)} classes: lower --classes {classes}, or choose other --data"
        )
    first = (count + 1) // 2
    train = _of_each(dataset, "train", classes, count)
    test = _of_each(dataset, "test", classes, tests)
    parts = []
    for split, numbers in (("train", train[:first]), ("train", train[first:]), ("test", test)):
        order = numbers.reshape(-1)
        images = _fitted(np.asarray(getattr(dataset, f"{split}_images")[order]), shape)
        parts.append((images, getattr(dataset, f"{split}_labels")[order].tolist()))
    return Samples(dataset.class_names[:classes], *parts)


def _of_each(dataset: Dataset, split: str, classes: int, count: int) -> NDArray[np.int64]:
    """Image numbers [count, classes]: the first of every class, then the second, and so on."""
    labels = getattr(dataset, f"{split}_labels")
    columns = [np.flatnonzero(labels == label)[:count] for label in range(classes)]
    for label, column in enumerate(columns):
        if len(column) < count:
            raise ConfigurationError(
                f"{dataset.name} has {len(column)} {split} images of {dataset.class_names[label]}: ask for fewer than "
                f"{count}"
            )
    return np.stack(columns, axis=1)


def _fitted(images: Images, shape: tuple[int, int, int]) -> Images:
    """Images in a model's shape; for a model that takes neither gray nor color, gray ones in each of its channels."""
    if shape[2] != images.shape[3]:
        images = np.rint(images.mean(axis=3, keepdims=True)).astype(np.uint8)
    return fit_images(images, shape)
