"""A data set as a stream of experiences (docs/method.md 1.5).

In Avalanche's words, an experience brings new classes (NC) or new instances (NI).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everbit.data.datasets import Dataset
from everbit.data.permutation import seeded_permutation
from everbit.errors import ConfigurationError, DataError


@dataclass(frozen=True, eq=False)
class Experience:
    """One batch of the stream: images uint8 [N, H, W, channels] and labels int64 [N], the data set's class numbers.

    ``classes`` are the labels that occur, sorted.
    """

    index: int
    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    classes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Stream:
    """The experiences in order, and one fixed test set that always holds all classes."""

    train_stream: tuple[Experience, ...]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.int64]
    class_names: tuple[str, ...]


@dataclass(frozen=True)
class Protocol:
    """The usual experiences of a data set: classes in each for NC, number of experiences for NI."""

    nc_sizes: tuple[int, ...]
    ni_experiences: int


PROTOCOLS: dict[str, Protocol] = {
    "cifar10": Protocol((2,) * 5, 10),
    "cifar100": Protocol((10,) * 10, 10),
    "gtsrb": Protocol((8,) + (5,) * 7, 7),
    "coil": Protocol((10,) + (5,) * 8, 6),
    "fashion_demo": Protocol((2,) * 5, 10),
    "mnist": Protocol((2,) * 5, 10),
    "tiny_imagenet": Protocol((20,) * 10, 10),
}

# What a random order is for: no two orders of one seed are related, and the class order stays the same when fewer
# images are taken.
_CLASS_ORDER, _CHOICE, _IMAGE_ORDER, _PARTS = range(4)


def nc_stream(
    dataset: Dataset, experiences: int | None = None, seed: int = 0, images_per_class: int | None = None
) -> Stream:
    """New classes: every class comes in one experience, in an order drawn by ``seed``.

    ``experiences`` is the data set's usual number in ``PROTOCOLS`` or any that divides its classes evenly.
    ``images_per_class`` caps the training images of a class, drawn by ``seed``; a smaller cap takes a part of a larger
    one's.
    Raises ConfigurationError for an argument out of range, DataError where a class has no training image.
    """
    _check(dataset, seed, images_per_class)
    sizes = _nc_sizes(dataset, experiences)
    order = seeded_permutation(len(dataset.class_names), seed, _CLASS_ORDER)
    groups = np.split(order, np.cumsum(sizes)[:-1])
    chosen = [
        np.concatenate([_choose(dataset, int(label), seed, images_per_class) for label in group]) for group in groups
    ]
    return _stream(dataset, chosen, seed)


def ni_stream(
    dataset: Dataset, experiences: int | None = None, seed: int = 0, images_per_class: int | None = None
) -> Stream:
    """New instances: every experience brings new images of the same classes.

    Images with one group number (``Dataset.train_group``) stay in one experience. Where every group holds one class (a
    video track, or a single image of an ungrouped set) the groups of each class are dealt out evenly, so each
    experience has all classes; where groups span classes (sessions) they are dealt out as they are. ``experiences`` is
    the data set's usual number in ``PROTOCOLS`` or at most the number of groups to deal. ``images_per_class`` caps a
    class's training images over the whole stream, shared evenly by the experiences.
    Raises ConfigurationError for an argument out of range, DataError where a class has no training image.
    """
    _check(dataset, seed, images_per_class)
    groups, pools = _groups(dataset)
    largest = min(len(pool) for pool in pools)
    if experiences is None and dataset.name in PROTOCOLS:
        experiences = PROTOCOLS[dataset.name].ni_experiences
    if experiences is None or not 1 <= experiences <= largest:
        raise ConfigurationError(
            f"{dataset.name} cannot make {_count(experiences)} new-instances experiences: choose 1 to {largest}"
        )
    if images_per_class is not None and images_per_class < experiences:
        raise ConfigurationError(
            f"images_per_class is {images_per_class}, less than one for each of {experiences} experiences: "
            f"raise it to {experiences} or more, or ask for fewer experiences"
        )
    part_of_group = np.empty(int(groups.max()) + 1, np.int64)
    for number, pool in enumerate(pools):
        # Starting the deal one further for each pool keeps the experiences equally large when the pools do not divide.
        dealt = (np.arange(len(pool)) + number) % experiences
        part_of_group[pool[seeded_permutation(len(pool), seed, _PARTS, number)]] = dealt
    part = part_of_group[groups]
    chosen = []
    for index in range(experiences):
        inside = part == index
        cap = None
        if images_per_class is not None:
            cap = images_per_class // experiences + (index < images_per_class % experiences)
        labels = np.unique(dataset.train_labels[inside]).tolist()
        chosen.append(np.concatenate([_choose(dataset, label, seed, cap, inside) for label in labels]))
    return _stream(dataset, chosen, seed)


def _check(dataset: Dataset, seed: int, images_per_class: int | None) -> None:
    counts = np.bincount(dataset.train_labels, minlength=len(dataset.class_names))
    if (counts == 0).any():
        name = dataset.class_names[int(counts.argmin())]
        raise DataError(f"{dataset.name} has no training image of class {name!r}: check its labels")
    if seed < 0:
        raise ConfigurationError(f"seed is {seed}: choose an integer >= 0")
    if images_per_class is not None and images_per_class < 1:
        raise ConfigurationError(
            f"images_per_class is {images_per_class}: choose 1 or more, or leave it out to take all"
        )


def _nc_sizes(dataset: Dataset, experiences: int | None) -> tuple[int, ...]:
    """Number of classes in each experience."""
    classes = len(dataset.class_names)
    usual = PROTOCOLS[dataset.name].nc_sizes if dataset.name in PROTOCOLS else ()
    if sum(usual) != classes:
        usual = ()
    if usual and experiences in (None, len(usual)):
        return usual
    if experiences is None or experiences < 1 or classes % experiences:
        valid = [count for count in range(1, classes + 1) if classes % count == 0 or len(usual) == count]
        raise ConfigurationError(
            f"{dataset.name} cannot split {classes} classes into {_count(experiences)} new-classes experiences: "
            f"choose one of {', '.join(map(str, valid))}"
        )
    return (classes // experiences,) * experiences


def _count(experiences: int | None) -> str:
    return "an unnamed number of" if experiences is None else str(experiences)


def _choose(
    dataset: Dataset, label: int, seed: int, cap: int | None, inside: NDArray[np.bool_] | None = None
) -> NDArray[np.int64]:
    """Indices of at most ``cap`` training images of a class, among those marked by ``inside``."""
    member = dataset.train_labels == label
    indices = np.flatnonzero(member if inside is None else member & inside)
    return indices[seeded_permutation(len(indices), seed, _CHOICE, label)[:cap]]


def _groups(dataset: Dataset) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """Group number 0..G-1 of each training image, and the pools of group numbers to be dealt out evenly."""
    labels = dataset.train_labels
    numbers = np.arange(len(labels)) if dataset.train_group is None else dataset.train_group
    _, first, groups = np.unique(numbers, return_index=True, return_inverse=True)
    label_of_group = labels[first]
    if (label_of_group[groups] != labels).any():
        return groups, [np.arange(len(first))]
    return groups, [np.flatnonzero(label_of_group == label) for label in range(len(dataset.class_names))]


def _stream(dataset: Dataset, chosen: Sequence[NDArray[np.int64]], seed: int) -> Stream:
    """The stream of the chosen training indices, shuffled inside each experience."""
    train_stream = []
    for index, indices in enumerate(chosen):
        shuffled = indices[seeded_permutation(len(indices), seed, _IMAGE_ORDER, index)]
        labels = dataset.train_labels[shuffled]
        classes = tuple(np.unique(labels).tolist())
        train_stream.append(Experience(index, dataset.train_images[shuffled], labels, classes))
    return Stream(tuple(train_stream), dataset.test_images, dataset.test_labels, dataset.class_names)
