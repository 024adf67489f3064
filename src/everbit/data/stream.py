"""What a stream is, and the steps that every scenario builds one with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everbit.data.dataset import Dataset
from everbit.data.lazy_images import Images, view
from everbit.data.permutation import seeded_permutation
from everbit.errors import ConfigurationError, DataError


class Experience:
    """One batch of the stream.

    index: its place in the stream. labels: int64 [N], the data set's class numbers. classes: the labels that occur,
    sorted.
    """

    def __init__(self, index: int, images: Images, labels: NDArray[np.int64], classes: tuple[int, ...]) -> None:
        self.index, self.labels, self.classes = index, labels, classes
        self._images = images

    @property
    def images(self) -> NDArray[np.uint8]:
        """uint8 [N, H, W, channels], read or copied whenever it is asked for: only what is held takes memory."""
        return np.asarray(self._images)

    @property
    def source(self) -> Images:
        """The images before they are read."""
        return self._images


@dataclass(frozen=True, eq=False)
class Stream:
    """The experiences in order, and one fixed test set that always holds all classes."""

    train_stream: tuple[Experience, ...]
    test_images: Images
    test_labels: NDArray[np.int64]
    class_names: tuple[str, ...]


# What a random order is for: no two orders of one seed are related, and the class order stays the same when fewer
# images are taken.
CLASS_ORDER, CHOICE, IMAGE_ORDER, PARTS, FIRST_GROUP = range(5)


def check_request(dataset: Dataset, seed: int, images_per_class: int | None) -> None:
    """Raises ConfigurationError for a number out of range, DataError where a class has no training image."""
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


def choose(
    dataset: Dataset, label: int, seed: int, cap: int | None, inside: NDArray[np.bool_] | None = None
) -> NDArray[np.int64]:
    """Indices of at most ``cap`` training images of a class, among those marked by ``inside``."""
    member = dataset.train_labels == label
    indices = np.flatnonzero(member if inside is None else member & inside)
    return indices[seeded_permutation(len(indices), seed, CHOICE, label)[:cap]]


def share(
    dataset: Dataset, experiences: Sequence[NDArray[np.int64]], seed: int, images_per_class: int | None
) -> list[NDArray[np.int64]]:
    """The training images of experiences where ``images_per_class`` caps each class over the whole stream.

    The cap is shared evenly by the experiences that hold the class. Raises ConfigurationError where it is less than one
    for each.
    """
    present = np.zeros((len(experiences), len(dataset.class_names)), bool)
    for index, indices in enumerate(experiences):
        present[index, dataset.train_labels[indices]] = True
    most = int(present.sum(axis=0).max())
    if images_per_class is not None and images_per_class < most:
        raise ConfigurationError(
            f"images_per_class is {images_per_class}, less than one for each of {most} experiences: "
            f"raise it to {most} or more, or ask for fewer experiences"
        )
    chosen = []
    for index, indices in enumerate(experiences):
        inside = np.zeros(len(dataset.train_labels), bool)
        inside[indices] = True
        kept = []
        for label in np.flatnonzero(present[index]).tolist():
            cap = None
            if images_per_class is not None:
                each, left = divmod(images_per_class, int(present[:, label].sum()))
                cap = each + (int(present[:index, label].sum()) < left)
            kept.append(choose(dataset, label, seed, cap, inside))
        chosen.append(np.concatenate(kept))
    return chosen


def group_numbers(dataset: Dataset) -> NDArray[np.int64]:
    """Group number 0..G-1 of each training image; each image its own group where the data set has none."""
    numbers = np.arange(len(dataset.train_labels)) if dataset.train_group is None else dataset.train_group
    return np.unique(numbers, return_inverse=True)[1].reshape(-1).astype(np.int64)


def build(
    dataset: Dataset, chosen: Sequence[NDArray[np.int64]], seed: int, test: NDArray[np.int64] | None = None
) -> Stream:
    """The stream of the chosen training images, shuffled inside each experience.

    test: indices of the test images, all of them where it is None.
    """
    train_stream = []
    for index, indices in enumerate(chosen):
        shuffled = indices[seeded_permutation(len(indices), seed, IMAGE_ORDER, index)]
        labels = dataset.train_labels[shuffled]
        classes = tuple(np.unique(labels).tolist())
        train_stream.append(Experience(index, view(dataset.train_images, shuffled), labels, classes))
    if test is None:
        return Stream(tuple(train_stream), dataset.test_images, dataset.test_labels, dataset.class_names)
    return Stream(tuple(train_stream), view(dataset.test_images, test), dataset.test_labels[test], dataset.class_names)
