"""Images that stay where they are until they are asked for, so that a large set needs the memory of one part."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, Union

import numpy as np
from numpy.typing import NDArray

from everbit.data.images import as_images, fit_images
from everbit.errors import DataError

AT_ONCE = 1024
"""Most images that are read at once where all of them are gone through."""

Shape = tuple[int, int, int]


class ImageReader(Protocol):
    """Where lazy images come from."""

    def read(self, numbers: NDArray[np.int64], shape: Shape) -> NDArray[np.uint8]:
        """The images of these numbers, uint8 [N, *shape], resized where they have another size."""

    def fingerprint(self, number: int) -> bytes | None:
        """Differs where images differ, and costs less than reading one; None where only the pixels can tell."""


class LazyImages:
    """Images uint8 [N, H, W, channels] of a reader: indexing by a slice or an integer array reads them.

    Has what is needed of an array's interface (`len`, `shape`, `ndim`, `dtype`, `numpy.asarray`).
    """

    dtype = np.dtype(np.uint8)
    ndim = 4

    def __init__(self, reader: ImageReader, numbers: NDArray[np.int64], image_shape: Shape) -> None:
        self._reader, self._numbers, self._image_shape = reader, numbers, image_shape

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (len(self), *self._image_shape)

    def __getitem__(self, key: slice | NDArray[Any]) -> NDArray[np.uint8]:
        return self._reader.read(self._numbers[key], self._image_shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype)

    def part(self, indices: NDArray[np.int64]) -> LazyImages:
        """The images at these positions, in this order; nothing is read."""
        return LazyImages(self._reader, self._numbers[indices], self._image_shape)

    def fitted(self, shape: Shape) -> LazyImages:
        """The same images, each read in another shape (height, width, channels)."""
        return LazyImages(self._reader, self._numbers, shape)

    def fingerprints(self) -> list[bytes] | None:
        """One of each image in its shape, None where only the pixels can tell."""
        prints = []
        for number in self._numbers.tolist():
            found = self._reader.fingerprint(number)
            if found is None:
                return None
            prints.append(found + repr(self._image_shape).encode())
        return prints


Images = Union[NDArray[np.uint8], LazyImages]  # noqa: UP007 - NumPy's generic alias knows no `|` on Python 3.10
"""Images uint8 [N, H, W, channels] in memory, or read when they are asked for."""


class ArrayReader:
    """Reads from an array uint8 [N, H, W, channels]."""

    def __init__(self, images: NDArray[np.uint8]) -> None:
        self._images = images

    def read(self, numbers: NDArray[np.int64], shape: Shape) -> NDArray[np.uint8]:
        return fit_images(self._images[numbers], shape)

    def fingerprint(self, number: int) -> None:
        return None


class FileReader:
    """Reads image files under a folder. names: of the files, relative to it."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._folder, self._names = folder, names

    def read(self, numbers: NDArray[np.int64], shape: Shape) -> NDArray[np.uint8]:
        if not len(numbers):
            return np.empty((0, *shape), np.uint8)
        return as_images([self._folder / self._names[number] for number in numbers.tolist()], shape)

    def fingerprint(self, number: int) -> bytes:
        """Digest of the file, which spares decoding it. Raises DataError where it is missing."""
        path = self._folder / self._names[number]
        try:
            return hashlib.sha256(path.read_bytes()).digest()
        except OSError as error:
            raise DataError(f"cannot read {path} ({error.strerror}): copy the data set again") from error


def view(images: Images, indices: NDArray[np.int64]) -> LazyImages:
    """The images at these positions, in this order, read or copied only when they are asked for."""
    if isinstance(images, LazyImages):
        return images.part(indices)
    return LazyImages(ArrayReader(images), indices, images.shape[1:])


def parts(images: Images) -> Iterator[NDArray[np.uint8]]:
    """An array as one part; lazy images AT_ONCE at a time."""
    step = AT_ONCE if isinstance(images, LazyImages) else max(1, len(images))
    for start in range(0, len(images), step):
        yield images[start : start + step]


def update_digest(digest: hashlib._Hash, images: Images) -> None:
    """Adds the images to a digest: their pixels, or their files and the shape they are read in."""
    prints = images.fingerprints() if isinstance(images, LazyImages) else None
    if prints is not None:
        digest.update(b"".join(prints))
        return
    for part in parts(images):
        digest.update(np.ascontiguousarray(part).data)
