"""A pair of ``torch.utils.data.Dataset`` as a data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from everbit.data.dataset import Dataset
from everbit.data.item_images import class_numbers, item_pixels, stacked
from everbit.data.lazy_images import LazyImages, Shape
from everbit.errors import DataError


class Items(Protocol):
    """What is needed of a map-style data set: items (image, label) by number."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Any: ...


class ItemReader:
    """Reads the images of the items of a data set."""

    def __init__(self, items: Items) -> None:
        self._items = items

    def read(self, numbers: NDArray[np.int64], shape: Shape) -> NDArray[np.uint8]:
        images = (item_pixels(self._items[number][0], f"image {number}") for number in numbers.tolist())
        return stacked(images, len(numbers), shape)

    def fingerprint(self, number: int) -> None:
        return None


def from_torch(
    train: Items,
    test: Items,
    *,
    name: str = "torch",
    class_names: Sequence[str] | None = None,
    train_group: NDArray[np.int64] | None = None,
    license_note: str = "Yours.",
    pad_crop_flip: bool = False,
) -> Dataset:
    """The data set of two map-style data sets whose items are (image, label).

    An image is a Pillow image, or bytes [H, W, C], [C, H, W] or [H, W]; leave out transforms to floats. Every item is
    asked for once for its label, and again whenever its image is needed, so that only what is held takes memory; the
    same number must give the same image. class_names: of the labels 0, 1, ..., else the labels themselves.
    train_group, license_note, pad_crop_flip: as of ``Dataset``. Raises DataError for items of another kind.
    """
    for split, items in (("training", train), ("test", test)):
        if not hasattr(items, "__len__") or not hasattr(items, "__getitem__") or not len(items):
            raise DataError(f"{name}: the {split} set has no length or no items: give a map-style data set")
    labels = [[_label(items[number], number) for number in range(len(items))] for items in (train, test)]
    train_labels, test_labels, names = class_numbers(labels[0], labels[1], class_names)
    shape = item_pixels(train[0][0], "image 0").shape
    images = [LazyImages(ItemReader(items), np.arange(len(items)), shape) for items in (train, test)]
    return Dataset(
        name, images[0], train_labels, images[1], test_labels, names, train_group, license_note, pad_crop_flip
    )


def _label(item: Any, number: int) -> Any:
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        raise DataError(f"item {number} is no pair (image, label): wrap the data set so that it gives such pairs")
    return item[1]
