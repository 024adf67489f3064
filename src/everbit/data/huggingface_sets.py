"""A ``DatasetDict`` of Hugging Face's ``datasets`` as a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everbit.data.dataset import Dataset
from everbit.data.item_images import class_numbers, item_pixels, stacked
from everbit.data.lazy_images import LazyImages, Shape
from everbit.errors import DataError


class ColumnReader:
    """Reads the images in a column of a split."""

    def __init__(self, split: Any, column: str) -> None:
        self._split, self._column = split.select_columns([column]), column

    def read(self, numbers: NDArray[np.int64], shape: Shape) -> NDArray[np.uint8]:
        images = (
            item_pixels(self._split[number][self._column], f"{self._column} {number}") for number in numbers.tolist()
        )
        return stacked(images, len(numbers), shape)

    def fingerprint(self, number: int) -> None:
        return None


def from_huggingface(
    dataset: Any,
    *,
    image: str = "image",
    label: str = "label",
    train: str = "train",
    test: str = "test",
    name: str = "huggingface",
    pad_crop_flip: bool = False,
) -> Dataset:
    """The data set of a ``datasets.DatasetDict``.

    image, label: names of the columns; train, test: of the splits. The images, a feature ``Image`` or arrays of bytes,
    are read when they are asked for. Classes are those of a ``ClassLabel``, else the different training labels, sorted.
    Raises DataError where a split or column is missing.
    """
    for split in (train, test):
        if split not in dataset:
            raise DataError(f"{name} has no split {split!r}: name one of {', '.join(dataset)} by train= and test=")
        if missing := {image, label} - set(dataset[split].column_names):
            raise DataError(
                f"{name}: split {split!r} has no column {', '.join(sorted(missing))}: name two of "
                f"{', '.join(dataset[split].column_names)} by image= and label="
            )
        if not len(dataset[split]):
            raise DataError(f"{name}: split {split!r} is empty")
    feature = dataset[train].features[label]
    labels = [list(dataset[split][label]) for split in (train, test)]
    train_labels, test_labels, names = class_numbers(labels[0], labels[1], getattr(feature, "names", None))
    shape = item_pixels(dataset[train][0][image], f"{image} 0").shape
    images = [
        LazyImages(ColumnReader(dataset[split], image), np.arange(len(labels[index])), shape)
        for index, split in enumerate((train, test))
    ]
    note = dataset[train].info.license or "See the data set's card."
    return Dataset(name, images[0], train_labels, images[1], test_labels, names, None, note, pad_crop_flip)


def read_huggingface(where: str) -> Dataset:
    """The data set that ``DatasetDict.save_to_disk`` wrote to a folder, else the one of that name on the Hub.

    Raises DataError where there is none, or it lacks the columns ``image`` and ``label`` or the splits ``train`` and
    ``test``.
    """
    import datasets

    try:
        found = datasets.load_from_disk(where) if Path(where).is_dir() else datasets.load_dataset(where)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot load {where!r} with Hugging Face datasets ({error}): check the name") from error
    return from_huggingface(found, name=Path(where).name)
