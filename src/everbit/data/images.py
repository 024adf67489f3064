"""Images and labels as users hold them, brought to one form, or an error that says what to change."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from everbit.errors import ImageError, LabelError

_PILLOW_MODES = {1: "L", 3: "RGB"}


def as_images(x: object, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Bring ``x`` to uint8 [N, H, W, channels] with (H, W, channels) = ``shape`` and N >= 1.

    ``x`` is a uint8 array [N, H, W, channels] or [H, W, channels] (one image), or a list of paths and uint8 arrays
    [H, W, channels]. Files are turned upright by their EXIF tag, converted to RGB (to gray where ``shape`` has one
    channel) and resized to H x W; arrays must have the right size already. An array may come back without a copy.
    Raises ImageError for anything else.
    """
    if isinstance(x, np.ndarray):
        batch = x[None] if x.ndim == 3 else x
        _check_array(batch, shape, "images")
        return np.ascontiguousarray(batch)
    if isinstance(x, (str, Path)):
        raise ImageError(f"a single path {str(x)!r} was given: put it in a list, [{str(x)!r}]")
    if not isinstance(x, (list, tuple)):
        raise ImageError(
            f"images of type {type(x).__name__} are not understood: give a uint8 NumPy array [N, {_text(shape)}] "
            "(for another array type, numpy.asarray(x)), or a list of paths or of such arrays"
        )
    if not x:
        raise ImageError("there are no images: give at least one")
    images = np.empty((len(x), *shape), np.uint8)
    for index, item in enumerate(x):
        images[index] = _one_image(item, shape, f"image {index}")
    return images


def as_labels(y: object, count: int) -> list[Hashable]:
    """Bring ``y``, a list, tuple or one-dimensional NumPy array, to a list of ``count`` hashable labels.

    NumPy scalars become Python values, so that a class is the same class whichever array its label came from.
    Raises LabelError where there are more or fewer labels than images, or a label cannot be hashed or is missing
    (None, NaN).
    """
    if isinstance(y, np.ndarray):
        if y.ndim != 1:
            advice = (
                "numpy.atleast_1d(y)" if y.ndim == 0 else "y.argmax(axis=1) for one-hot rows, y.ravel() for a column"
            )
            raise LabelError(
                f"labels have shape {list(y.shape)}: give one label for each image, shape [{count}]; use {advice}"
            )
        values: list[object] = y.tolist()
    elif isinstance(y, (list, tuple)):
        values = list(y)
    else:
        raise LabelError(
            f"labels of type {type(y).__name__} are not understood: give a list, tuple or NumPy array with one label "
            "for each image (a single image too needs a list of one label)"
        )
    if len(values) != count:
        raise LabelError(f"{len(values)} label(s) for {count} image(s): give exactly one label for each image")
    return [_label(value, index) for index, value in enumerate(values)]


def resize_images(images: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Resize uint8 [N, H, W, 1 or 3] to ``height`` x ``width`` as image files are resized (bilinear, antialiased)."""
    count, *size, channels = images.shape
    if size == [height, width]:
        return images
    resized = np.empty((count, height, width, channels), np.uint8)
    for index, pixels in enumerate(images):
        image = Image.fromarray(pixels if channels == 3 else pixels[:, :, 0])
        resized[index] = _resized_pixels(image, (height, width, channels))
    return resized


def fit_images(images: NDArray[np.uint8], shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Images uint8 [N, H, W, C] in a model's shape: resized, gray ones with equal channels.

    Raises ImageError where the channels cannot be made to fit.
    """
    height, width, channels = shape
    if images.shape[1:3] != (height, width):
        images = resize_images(images, height, width)
    found = images.shape[3]
    if found == 1 < channels:
        return np.repeat(images, channels, axis=3)
    if found != channels:
        raise ImageError(f"images with {found} channels do not fit a model that takes {channels}: use another model")
    return images


def _resized_pixels(image: Image.Image, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    height, width, _ = shape
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(image, np.uint8).reshape(shape)


def _one_image(item: object, shape: tuple[int, int, int], name: str) -> NDArray[np.uint8]:
    """uint8 [H, W, channels] of one element of a list."""
    if isinstance(item, (str, Path)):
        return _open(Path(item), shape)
    if not isinstance(item, np.ndarray):
        raise ImageError(
            f"{name} is of type {type(item).__name__}: a list may hold paths and uint8 NumPy arrays [{_text(shape)}]; "
            "numpy.asarray(image) turns most image types into one"
        )
    _check_array(item[None] if item.ndim == 3 else item, shape, name)
    if item.ndim != 3:
        raise ImageError(
            f"{name} has shape {list(item.shape)}: an element of a list must be one image [{_text(shape)}]; "
            "give a batch as one array instead of a list"
        )
    return item


def _open(path: Path, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """uint8 [H, W, channels] of an image file."""
    if shape[2] not in _PILLOW_MODES:
        raise ImageError(f"image files have 1 or 3 channels, the model takes {shape[2]}: give arrays [{_text(shape)}]")
    if not path.is_file():
        raise ImageError(f"image file {path} does not exist: check the path (relative paths start at {Path.cwd()})")
    try:
        with Image.open(path) as image:
            if image.mode[0] in "IF":
                raise ValueError("more than 8 bits a channel; convert it to 8 bits")
            return _resized_pixels(ImageOps.exif_transpose(image).convert(_PILLOW_MODES[shape[2]]), shape)
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise ImageError(
            f"image file {path} cannot be read ({error}): check that it is a complete JPEG, PNG or other common image"
        ) from error


def _check_array(batch: NDArray[Any], shape: tuple[int, int, int], name: str) -> None:
    """Raise ImageError unless ``batch`` is uint8 [N >= 1, *shape]."""
    if batch.dtype != np.uint8:
        raise ImageError(f"{name}: {_dtype_advice(batch)}")
    if batch.size == 0 and batch.ndim == 4:
        raise ImageError(f"{name}: the array is empty (shape {list(batch.shape)}): give at least one image")
    if batch.ndim == 4 and batch.shape[1:] == shape:
        return
    if batch.ndim != 4:
        advice = "an image needs its axes height, width and channel"
    elif batch.shape[1:] == (shape[2], shape[0], shape[1]):
        advice = "the channel comes last here: use x.transpose(0, 2, 3, 1)"
    elif batch.shape[3] == shape[2]:
        advice = (
            f"resize the images to {shape[0]}x{shape[1]} pixels (everbit.data.images.resize_images), "
            "or give paths, which are resized"
        )
    else:
        advice = f"the model takes {shape[2]} channel(s)"
        if batch.shape[3] == 1:
            advice += f": repeat the gray channel, numpy.repeat(x, {shape[2]}, axis=-1)"
    raise ImageError(
        f"{name}: shape {list(batch.shape)} where [N, {_text(shape)}] or [{_text(shape)}] is expected: {advice}"
    )


def _dtype_advice(array: NDArray[Any]) -> str:
    """What is wrong with an array that is not uint8, and the cast that mends it."""
    if np.issubdtype(array.dtype, np.floating):
        if np.isnan(array).any():
            where = [int(axis[0]) for axis in np.nonzero(np.isnan(array))]
            return f"NaN at index {where}: pixels must be uint8 values 0..255; remove or repair that image"
        if array.size and array.min() >= 0 and array.max() <= 1:
            return f"{array.dtype} pixels in 0..1: multiply by 255 and cast, (x * 255).round().astype(numpy.uint8)"
        return (
            f"{array.dtype} pixels: they must be uint8 values 0..255. Undo any normalization, multiply by 255 if they "
            "are in 0..1, and cast, x.round().astype(numpy.uint8)"
        )
    if np.issubdtype(array.dtype, np.integer) or array.dtype == np.bool_:
        return f"{array.dtype} pixels: they must be uint8; if they are in 0..255, cast, x.astype(numpy.uint8)"
    if array.dtype.kind in "US":
        return "an array of text: give paths as a list, x.tolist()"
    return f"an array of {array.dtype}: pixels must be uint8; give images of several sizes as a list of paths"


def _text(sizes: Iterable[int]) -> str:
    return ", ".join(str(size) for size in sizes)


def _label(value: object, index: int) -> Hashable:
    """One label as a hashable Python value."""
    if isinstance(value, np.generic):
        value = value.item()
    if hasattr(value, "__array__"):
        raise LabelError(
            f"label {index} is an array ({type(value).__name__}): give a number or a text, e.g. its .item()"
        )
    try:
        hash(value)
    except TypeError:
        raise LabelError(
            f"label {index} is a {type(value).__name__}, which cannot be hashed: give a number, a text or a tuple"
        ) from None
    if value is None or (isinstance(value, (float, complex)) and value != value):
        raise LabelError(f"label {index} is missing ({value}): give every image a label, or leave the image out")
    return value
