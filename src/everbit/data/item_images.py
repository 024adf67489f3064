"""Images as the data sets of other libraries hand them out, one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from everbit.data.images import fit_images
from everbit.data.lazy_images import Shape
from everbit.errors import DataError

_CHANNELS = (1, 3)


def item_pixels(item: Any, place: str) -> NDArray[np.uint8]:
    """uint8 [H, W, channels] of a Pillow image, or of an array or tensor of bytes [H, W], [H, W, C] or [C, H, W].

    place: says where the item is, for errors. Raises DataError for anything else.
    """
    if isinstance(item, Image.Image):
        item = item if item.mode in ("L", "RGB") else item.convert("RGB")
    pixels = np.asarray(item)
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.ndim == 3 and pixels.shape[2] not in _CHANNELS and pixels.shape[0] in _CHANNELS:
        pixels = pixels.transpose(1, 2, 0)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in _CHANNELS or not pixels.size:
        raise DataError(
            f"{place} is {type(item).__name__} of {pixels.dtype} and shape {list(pixels.shape)}: everbit takes Pillow "
            "images and bytes [H, W, channels] with 1 or 3 channels; leave out transforms that make tensors of floats"
        )
    return pixels


def stacked(images: Iterable[NDArray[np.uint8]], count: int, shape: Shape) -> NDArray[np.uint8]:
    """uint8 [count, *shape] of images of any size, resized."""
    batch = np.empty((count, *shape), np.uint8)
    for index, pixels in enumerate(images):
        batch[index] = fit_images(pixels[None], shape)[0]
    return batch


def class_numbers(
    train: Sequence[Any], test: Sequence[Any], names: Sequence[str] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[str, ...]]:
    """Class numbers of training and test labels, and the classes' names.

    names: of the labels 0, 1, ...; without them the different training labels, sorted, are the classes. Raises
    DataError where a label names none of them.
    """
    train, test = ([_plain(label) for label in labels] for labels in (train, test))
    by_kind = sorted(set(train), key=lambda label: (isinstance(label, str), label))
    number_of = {label: number for number, label in enumerate(by_kind if names is None else range(len(names)))}
    for split, labels in (("training", train), ("test", test)):
        if unknown := {label for label in labels if label not in number_of}:
            some = ", ".join(map(repr, list(unknown)[:5]))
            raise DataError(f"{split} labels name no class that is known: {some}; give training images of every class")
    train_numbers, test_numbers = (
        np.array([number_of[label] for label in labels], np.int64) for labels in (train, test)
    )
    return train_numbers, test_numbers, tuple(map(str, number_of if names is None else names))


def _plain(label: Any) -> Any:
    """A label as a number or a text."""
    value = label.item() if hasattr(label, "item") else label
    if not isinstance(value, (int, str)):
        raise DataError(f"label {label!r} is a {type(label).__name__}: labels must be integers or texts")
    return value
