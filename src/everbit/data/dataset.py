"""A labeled image set in one form, wherever it came from."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from everbit.data.images import fit_images
from everbit.data.lazy_images import Images, view
from everbit.errors import DataError


@dataclass(frozen=True, eq=False)
class PublishedStream:
    """One run of a scenario as its authors published it.

    experiences: positions int64 of the training images of each. test: positions int64 of the test images, ascending.
    """

    experiences: tuple[NDArray[np.int64], ...]
    test: NDArray[np.int64]


class PublishedStreams(Protocol):
    """The streams that were published with a data set; they are taken as they are, never drawn again."""

    @property
    def scenarios(self) -> Sequence[str]:
        """Names of the scenarios that were published."""

    def stream(self, scenario: str, run: int) -> PublishedStream:
        """One run. Raises ConfigurationError where it was not published, DataError where its lists are damaged."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test images with class numbers 0..C-1.

    Images are uint8 [N, H, W, channels], in memory or lazy, and labels int64 [N]. ``train_group`` int64 [N] tells which
    training images were taken together (a track of video frames, a recording session) and is None where every image
    stands alone; the new-instances stream never splits a group. ``pad_crop_flip`` says whether training may use
    ``everbit.data.augment.pad_crop_flip``. ``published``: the set's own streams. Raises DataError where the parts do
    not fit together.
    """

    name: str
    train_images: Images
    train_labels: NDArray[np.int64]
    test_images: Images
    test_labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    train_group: NDArray[np.int64] | None
    license_note: str
    pad_crop_flip: bool
    published: PublishedStreams | None = None

    def __post_init__(self) -> None:
        for split, images, labels in (
            ("training", self.train_images, self.train_labels),
            ("test", self.test_images, self.test_labels),
        ):
            if images.dtype != np.uint8 or images.ndim != 4 or len(images) == 0:
                raise DataError(
                    f"data set {self.name!r}: the {split} images are {images.dtype} of shape {list(images.shape)}; "
                    "they must be uint8 [N, H, W, channels] with N >= 1"
                )
            if labels.shape != (len(images),):
                raise DataError(
                    f"data set {self.name!r}: {len(images)} {split} images but labels of shape {list(labels.shape)}; "
                    "there must be one label for each image"
                )
            if labels.min() < 0 or labels.max() >= len(self.class_names):
                raise DataError(
                    f"data set {self.name!r}: {split} labels run from {labels.min()} to {labels.max()}; "
                    f"its {len(self.class_names)} classes are numbered from 0"
                )
        if self.train_group is not None and self.train_group.shape != self.train_labels.shape:
            raise DataError(
                f"data set {self.name!r}: {len(self.train_labels)} training images but "
                f"group numbers of shape {list(self.train_group.shape)}; there must be one for each image"
            )

    def fitted(self, shape: tuple[int, int, int]) -> Dataset:
        """The same set with all images in a model's shape (height, width, channels).

        Images are resized, gray ones get equal channels. Raises ImageError where the channels cannot be made to fit.
        """
        if self.train_images.shape[1:] == self.test_images.shape[1:] == shape:
            return self
        train, test = (_fitted(images, shape) for images in (self.train_images, self.test_images))
        return dataclasses.replace(self, train_images=train, test_images=test)


def _fitted(images: Images, shape: tuple[int, int, int]) -> Images:
    if isinstance(images, np.ndarray):
        if math.prod(images.shape[1:3]) >= math.prod(shape[:2]):
            return fit_images(images, shape)
        fit_images(images[:1], shape)  # its errors are due now
    # Enlarged images take many times the memory: they are made when they are asked for.
    return view(images, np.arange(len(images))).fitted(shape)
