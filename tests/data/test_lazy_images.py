"""Images that are read when asked for: the same pixels as at once, and never more than asked for."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from everbit.data import lazy_images
from everbit.data.images import as_images
from everbit.data.lazy_images import (
    ArrayReader,
    FileReader,
    LazyImages,
    parts,
    update_digest,
    view,
)
from everbit.errors import DataError

PIXELS = np.random.default_rng(0).integers(0, 256, (7, 6, 5, 3), np.uint8)


class CountingReader(ArrayReader):
    """Remembers the largest number of images it was asked for at once."""

    largest = 0

    def read(self, numbers: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
        self.largest = max(self.largest, len(numbers))
        return super().read(numbers, shape)


def lazy(pixels: np.ndarray = PIXELS) -> LazyImages:
    return LazyImages(ArrayReader(pixels), np.arange(len(pixels)), pixels.shape[1:])


def digest(images: np.ndarray | LazyImages) -> str:
    made = hashlib.sha256()
    update_digest(made, images)
    return made.hexdigest()


def image_files(folder: Path) -> list[str]:
    names = [f"{number}.png" for number in range(len(PIXELS))]
    for name, pixels in zip(names, PIXELS, strict=True):
        Image.fromarray(pixels).save(folder / name)
    return names


def test_the_interface_of_an_array() -> None:
    images = lazy()
    assert (len(images), images.shape, images.ndim, images.dtype) == (7, (7, 6, 5, 3), 4, np.uint8)
    np.testing.assert_array_equal(np.asarray(images), PIXELS)
    np.testing.assert_array_equal(images[::3], PIXELS[::3])
    np.testing.assert_array_equal(images[np.array([4, 4, 0])], PIXELS[[4, 4, 0]])
    np.testing.assert_array_equal(images.part(np.array([5, 2, 3]))[1:], PIXELS[[2, 3]])
    np.testing.assert_array_equal(view(images.part(np.array([5, 2])), np.array([1])), PIXELS[[2]])
    np.testing.assert_array_equal(view(PIXELS, np.array([6, 1])), PIXELS[[6, 1]])


def test_files(tmp_path: Path) -> None:
    names = image_files(tmp_path)
    images = LazyImages(FileReader(tmp_path, names), np.arange(7), (6, 5, 3))
    np.testing.assert_array_equal(np.asarray(images), PIXELS)
    assert images[:0].shape == (0, 6, 5, 3)
    smaller = images.fitted((3, 4, 1))
    np.testing.assert_array_equal(smaller[:], as_images([tmp_path / name for name in names], (3, 4, 1)))


def test_going_through_all_reads_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_images, "AT_ONCE", 3)
    reader = CountingReader(PIXELS)
    images = LazyImages(reader, np.arange(7), (6, 5, 3))
    assert [len(part) for part in parts(images)] == [3, 3, 1]
    assert [len(part) for part in parts(PIXELS)] == [7]
    assert digest(images) == digest(PIXELS) == hashlib.sha256(PIXELS.tobytes()).hexdigest()
    assert reader.largest == 3


def test_digests_of_files_follow_content_shape_and_order(tmp_path: Path) -> None:
    names = image_files(tmp_path)
    images = LazyImages(FileReader(tmp_path, names), np.arange(7), (6, 5, 3))
    different = [
        images,
        images.fitted((3, 3, 3)),
        images.part(np.arange(7)[::-1].copy()),
        images.part(np.arange(6)),
        LazyImages(FileReader(tmp_path / ".", names[1:]), np.arange(6), (6, 5, 3)),
    ]
    before = [digest(item) for item in different]
    assert len(set(before)) == len(before)
    assert before == [digest(item) for item in different]
    Image.fromarray(PIXELS[1]).save(tmp_path / "0.png")
    assert digest(images) != before[0]
    (tmp_path / "0.png").unlink()
    with pytest.raises(DataError, match=r"cannot read .*0.png"):
        digest(images)
