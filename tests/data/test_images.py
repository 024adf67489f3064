"""as_images and as_labels: what is accepted, and what each error tells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from everbit.data.images import as_images, as_labels, resize_images
from everbit.errors import ImageError, LabelError

SHAPE = (8, 6, 3)
BATCH = np.random.default_rng(0).integers(0, 256, (4, *SHAPE), np.uint8)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "picture.png"
    Image.fromarray(BATCH[0]).save(path)
    return path


def test_arrays() -> None:
    assert np.array_equal(as_images(BATCH, SHAPE), BATCH)
    assert np.array_equal(as_images(BATCH[0], SHAPE), BATCH[:1])
    assert np.array_equal(as_images(list(BATCH), SHAPE), BATCH)
    assert np.array_equal(as_images(tuple(BATCH), SHAPE), BATCH)
    assert as_images(BATCH[:, ::-1], SHAPE).flags.c_contiguous


def test_paths(picture: Path) -> None:
    assert np.array_equal(as_images([picture, str(picture), BATCH[1]], SHAPE), BATCH[[0, 0, 1]])


def test_files_are_converted_and_resized(tmp_path: Path) -> None:
    path = tmp_path / "gray.jpg"
    Image.new("L", (100, 50), 77).save(path)
    assert np.array_equal(as_images([path], SHAPE), np.full((1, *SHAPE), 77, np.uint8))
    assert np.array_equal(as_images([path], (4, 4, 1)), np.full((1, 4, 4, 1), 77, np.uint8))
    with_alpha = tmp_path / "alpha.png"
    Image.new("RGBA", (6, 8), (1, 2, 3, 128)).save(with_alpha)
    assert as_images([with_alpha], SHAPE)[0, 0, 0].tolist() == [1, 2, 3]


def test_exif_orientation_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "turned.png"
    exif = Image.Exif()
    exif[0x0112] = 3
    Image.fromarray(BATCH[0]).save(path, exif=exif)
    assert np.array_equal(as_images([path], SHAPE)[0], BATCH[0][::-1, ::-1])


def with_nan() -> np.ndarray:
    images = np.zeros((2, *SHAPE))
    images[1, 2, 3, 0] = np.nan
    return images


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (BATCH[0, :, :, 0], r"shape \[8, 6\] where \[N, 8, 6, 3\] or \[8, 6, 3\] is expected: an image needs its axes"),
        (BATCH.transpose(0, 3, 1, 2), r"channel comes last here: use x.transpose\(0, 2, 3, 1\)"),
        (BATCH[:, :4], "resize the images to 8x6 pixels"),
        (BATCH[..., :1], r"repeat the gray channel, numpy.repeat\(x, 3, axis=-1\)"),
        (BATCH[..., :2], r"the model takes 3 channel\(s\)"),
        (BATCH / 255, r"float64 pixels in 0..1: multiply by 255 and cast"),
        (BATCH.astype(np.float32), "float32 pixels: .*multiply by 255.*cast"),
        (np.full((1, *SHAPE), -0.5), "Undo any normalization"),
        (with_nan(), r"NaN at index \[1, 2, 3, 0\]"),
        (BATCH.astype(np.int64), r"int64 pixels: .*x.astype\(numpy.uint8\)"),
        (BATCH > 100, "bool pixels"),
        (np.array(["a.png"]), "give paths as a list"),
        (np.array([BATCH[0], BATCH[0, 1:]], object), "array of object"),
        (np.zeros((0, *SHAPE), np.uint8), "empty .* give at least one image"),
        (np.array(3, np.uint8), r"shape \[\] where .* axes height, width and channel"),
        ([], "there are no images: give at least one"),
        ("a.png", r"a single path 'a.png' was given: put it in a list"),
        (Path("a.png"), "put it in a list"),
        (None, "images of type NoneType are not understood"),
        (iter(BATCH), "not understood: give a uint8 NumPy array"),
        ([BATCH[0], BATCH[1, 1:]], r"image 1: shape \[1, 7, 6, 3\] .*resize"),
        ([BATCH[0], BATCH[0] / 255], "image 1: float64 pixels in 0..1"),
        ([BATCH], "image 0 has shape .* must be one image"),
        ([BATCH[0], 7], "image 1 is of type int: a list may hold paths"),
        ([[[[1, 2, 3]]]], "image 0 is of type list"),
    ],
)
def test_what_is_refused(x: object, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        as_images(x, SHAPE)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"nowhere\.png does not exist: check the path"):
        as_images([tmp_path / "nowhere.png"], SHAPE)
    with pytest.raises(ImageError, match="does not exist"):
        as_images([tmp_path], SHAPE)


@pytest.mark.parametrize("content", [b"", b"no image", None])
def test_unreadable_file(tmp_path: Path, picture: Path, content: bytes | None) -> None:
    path = tmp_path / "broken.png"
    path.write_bytes(picture.read_bytes()[:100] if content is None else content)
    with pytest.raises(ImageError, match=r"broken\.png cannot be read .*: check that it is a complete"):
        as_images([picture, path], SHAPE)


def test_deep_file(tmp_path: Path) -> None:
    path = tmp_path / "deep.png"
    Image.fromarray(np.full((8, 6), 40_000, np.uint16)).save(path)
    with pytest.raises(ImageError, match="more than 8 bits a channel"):
        as_images([path], SHAPE)


def test_files_cannot_give_four_channels(picture: Path) -> None:
    with pytest.raises(ImageError, match="files have 1 or 3 channels, the model takes 4"):
        as_images([picture], (8, 6, 4))


def test_resize_images() -> None:
    assert resize_images(BATCH, 8, 6) is BATCH
    flat = np.full((2, 10, 20, 1), 9, np.uint8)
    assert np.array_equal(resize_images(flat, 5, 4), np.full((2, 5, 4, 1), 9, np.uint8))
    blocks = BATCH.repeat(2, axis=1).repeat(2, axis=2)
    assert np.abs(resize_images(blocks, 8, 6).astype(int) - BATCH).mean() < 40


def test_a_batch_is_resized_as_files_are(picture: Path) -> None:
    assert np.array_equal(as_images([picture], (5, 4, 3)), resize_images(BATCH[:1], 5, 4))


def test_labels_become_python_values() -> None:
    for y in (np.array([3, 1], np.uint8), [np.int64(3), np.int32(1)], (3, 1)):
        labels = as_labels(y, 2)
        assert labels == [3, 1]
        assert all(type(label) is int for label in labels)
    assert [type(label) for label in as_labels(np.array(["a", "b"]), 2)] == [str, str]
    assert as_labels([("cup", 1), "cup", 2.5, True], 4) == [("cup", 1), "cup", 2.5, True]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1], r"1 label\(s\) for 2 image\(s\)"),
        ([], r"0 label\(s\)"),
        (np.array(3), "numpy.atleast_1d"),
        (np.eye(2), "argmax"),
        (3, "labels of type int are not understood"),
        ("ab", "labels of type str are not understood"),
        ({1, 2}, "labels of type set"),
        (None, "labels of type NoneType"),
        ([1, [2]], "label 1 is a list, which cannot be hashed"),
        ([{}, 1], "label 0 is a dict, which cannot be hashed"),
        ([1, np.array(2)], "label 1 is an array"),
        ([1.0, float("nan")], "label 1 is missing"),
        (np.array([np.nan, 1.0]), "label 0 is missing"),
        ([np.float32("nan"), 1], "label 0 is missing"),
        ([1, None], "label 1 is missing"),
    ],
)
def test_labels_that_are_refused(y: object, message: str) -> None:
    with pytest.raises(LabelError, match=message):
        as_labels(y, 2)
