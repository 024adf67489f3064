"""Data sets: the packaged one, files of both layouts made here, the research files where present, and damaged ones."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from everbit.data.archives.registry import DOWNLOADS
from everbit.data.datasets import SOURCES, Dataset, load
from everbit.data.images import resize_images
from everbit.data.lazy_images import LazyImages
from everbit.data.streams import nc_stream, ni_stream
from everbit.errors import DataError, ImageError


def plain_arrays(classes: int = 10) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(classes, dtype=np.uint8), 2)
    return {
        "train_images": generator.integers(0, 256, (2 * classes, 6, 5, 3), np.uint8),
        "train_labels": labels,
        "test_images": generator.integers(0, 256, (classes, 6, 5, 3), np.uint8),
        "test_labels": np.arange(classes, dtype=np.uint8),
    }


def png_strip(images: np.ndarray) -> bytes:
    encoded = io.BytesIO()
    Image.fromarray(images.reshape(-1, *images.shape[2:])).save(encoded, "PNG")
    return encoded.getvalue()


def test_fashion_demo_needs_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVERBIT_DATA", str(tmp_path))
    data = load("fashion_demo")
    assert data.train_images.shape == (2000, 32, 32, 3)
    assert data.test_images.shape == (1000, 32, 32, 3)
    assert data.train_images.dtype == np.uint8
    assert data.train_labels.dtype == np.int64
    assert np.bincount(data.train_labels).tolist() == [200] * 10
    assert np.bincount(data.test_labels).tolist() == [100] * 10
    assert data.class_names[0] == "T-shirt/top"
    assert data.class_names[9] == "Ankle boot"
    assert (data.train_images[..., 0] == data.train_images[..., 2]).all()
    border = data.train_images.copy()
    border[:, 2:-2, 2:-2] = 0
    assert not border.any()
    assert data.train_images[:, 2:-2, 2:-2].any(axis=(1, 2, 3)).all()
    assert len({image.tobytes() for image in np.concatenate([data.train_images, data.test_images])}) >= 2990
    assert data.train_group is None
    assert not data.pad_crop_flip


def test_plain_arrays(tmp_path: Path) -> None:
    arrays = plain_arrays()
    np.savez(tmp_path / "cifar10.npz", label_names=np.array(list("abcdefghij")), **arrays)
    data = load("cifar10", tmp_path)
    assert (data.train_images == arrays["train_images"]).all()
    assert (data.test_labels == arrays["test_labels"]).all()
    assert data.class_names == tuple("abcdefghij")
    assert data.pad_crop_flip


def test_gray_arrays_without_names(tmp_path: Path) -> None:
    arrays = plain_arrays()
    arrays["train_images"], arrays["test_images"] = arrays["train_images"][..., 0], arrays["test_images"][..., 0]
    np.savez(tmp_path / "mnist.npz", **arrays)
    data = load("mnist", str(tmp_path))
    assert data.train_images.shape == (20, 6, 5, 1)
    assert data.class_names == tuple("0123456789")


def test_strips_with_sessions(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (450, 4, 5, 3), np.uint8)
    session = np.tile(np.arange(9), 50)
    strips = [png_strip(images[:200]), png_strip(images[200:])]
    np.savez(
        tmp_path / "coil50_128.npz",
        strips=np.frombuffer(b"".join(strips), np.uint8),
        offsets=np.cumsum([0, *map(len, strips)]),
        counts=np.array([200, 250], np.int32),
        splits=np.array(["all", "all"]),
        labels=np.repeat(np.arange(50), 9),
        session=session,
    )
    data = load("coil", tmp_path)
    assert (data.test_images == images[np.isin(session, [2, 5, 8])]).all()
    assert (data.train_images == images[~np.isin(session, [2, 5, 8])]).all()
    assert data.train_group is not None
    assert sorted(set(data.train_group.tolist())) == [0, 1, 3, 4, 6, 7]
    assert np.bincount(data.test_labels).tolist() == [3] * 50


def test_tracks_of_different_classes_are_different_groups(tmp_path: Path) -> None:
    np.savez(tmp_path / "gtsrb43_32.npz", train_track=np.zeros(86, np.uint16), **plain_arrays(43))
    data = load("gtsrb", tmp_path)
    assert data.train_group is not None
    assert data.train_group.tolist() == data.train_labels.tolist()


def test_folder_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "cifar10.npz", **plain_arrays())
    monkeypatch.setenv("EVERBIT_DATA", str(tmp_path))
    assert len(load("cifar10").train_images) == 20


def test_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EVERBIT_DATA", raising=False)
    with pytest.raises(DataError, match="the default"):
        load("cifar10")
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "cifar10.npz", **plain_arrays())
    assert len(load("cifar10").train_images) == 20


def test_missing_file_says_where_and_how(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        load("cifar100", tmp_path)
    for part in ("cifar100_q95.npz", str(tmp_path), SOURCES["cifar100"].url, "EVERBIT_DATA", "--root", "docs/data.md"):
        assert part in str(caught.value)


def test_missing_file_is_downloaded_by_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERBIT_DATA", str(tmp_path))
    for name in SOURCES.keys() & DOWNLOADS.keys():
        with pytest.raises(DataError, match=f"run `everbit data get {name}`, or get the original"):
            load(name)
    with pytest.raises(DataError, match=f"run `everbit data get mnist --root {tmp_path}`"):
        load("mnist", tmp_path)


def test_unknown_name_lists_the_known() -> None:
    with pytest.raises(DataError, match="unknown data set 'cifar': choose one of cifar10, cifar100, gtsrb"):
        load("cifar")


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.7, 0.999])
def test_truncated_file(tmp_path: Path, kept: float) -> None:
    path = tmp_path / "cifar10.npz"
    np.savez_compressed(path, **plain_arrays())
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(DataError, match="copy it again"):
        load("cifar10", tmp_path)


def test_flipped_byte(tmp_path: Path) -> None:
    path = tmp_path / "cifar10.npz"
    np.savez_compressed(path, **plain_arrays())
    content = bytearray(path.read_bytes())
    content[300] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DataError, match="cannot be read"):
        load("cifar10", tmp_path)


def test_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "cifar10.npz"
    path.write_text("hello")
    with pytest.raises(DataError, match="cannot be read as the data set 'cifar10'"):
        load("cifar10", tmp_path)
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(DataError, match=r"not an \.npz archive"):
        load("cifar10", tmp_path)
    np.savez(path, weights=np.zeros(3))
    with pytest.raises(DataError, match="cannot be read"):
        load("cifar10", tmp_path)
    np.savez(path, pickled=np.array([{}], object))
    with pytest.raises(DataError, match="cannot be read"):
        load("cifar10", tmp_path)


def test_file_of_another_set(tmp_path: Path) -> None:
    np.savez(tmp_path / "cifar10.npz", label_names=np.array(list("abc")), **plain_arrays(3))
    with pytest.raises(DataError, match="3 class names instead of 10"):
        load("cifar10", tmp_path)
    np.savez(tmp_path / "cifar10.npz", **plain_arrays(12))
    with pytest.raises(DataError, match="labels run from 0 to 11"):
        load("cifar10", tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train_images": np.zeros((3, 4, 4, 3), np.float32)}, "training images are float32"),
        ({"test_images": np.zeros((3, 4, 4), np.uint8)}, "test images are uint8 of shape"),
        ({"train_labels": np.zeros(2, np.int64)}, "3 training images but labels of shape"),
        ({"test_labels": np.array([0, 1, 2])}, "test labels run from 0 to 2"),
        ({"train_group": np.zeros(4, np.int64)}, "group numbers of shape"),
        ({"test_images": np.zeros((0, 4, 4, 3), np.uint8), "test_labels": np.zeros(0, np.int64)}, "N >= 1"),
    ],
)
def test_parts_that_do_not_fit(change: dict[str, Any], message: str) -> None:
    images, labels = np.zeros((3, 4, 4, 3), np.uint8), np.array([0, 1, 1])
    parts: dict[str, Any] = {
        "train_images": images,
        "train_labels": labels,
        "test_images": images,
        "test_labels": labels,
    } | change
    group = parts.pop("train_group", None)
    with pytest.raises(DataError, match=message):
        Dataset("own", **parts, class_names=("a", "b"), train_group=group, license_note="none", pad_crop_flip=False)


def test_fitted() -> None:
    data = load("fashion_demo")
    assert data.fitted((32, 32, 3)) is data
    smaller = data.fitted((16, 24, 3))
    assert smaller.train_images.shape == (2000, 16, 24, 3)
    assert smaller.test_images.shape == (1000, 16, 24, 3)
    for side in (32, 48):
        with pytest.raises(ImageError, match="3 channels do not fit a model that takes 1"):
            data.fitted((side, side, 1))


def test_enlarged_images_are_made_when_they_are_asked_for() -> None:
    data = load("fashion_demo")
    larger = data.fitted((64, 48, 3))
    assert isinstance(larger.train_images, LazyImages)
    assert larger.test_images.shape == (1000, 64, 48, 3)
    expected = resize_images(data.test_images[5:9], 64, 48)
    np.testing.assert_array_equal(larger.test_images[5:9], expected)


@pytest.mark.parametrize(
    ("name", "train", "test", "size"),
    [("cifar10", 50_000, 10_000, 32), ("gtsrb", 13_070, 12_630, 32), ("coil", 2400, 1200, 128)],
)
def test_research_files(research_data: Path, name: str, train: int, test: int, size: int) -> None:
    start = time.perf_counter()
    data = load(name, research_data)
    print(f"load({name!r}): {time.perf_counter() - start:.2f} s")
    assert data.train_images.shape == (train, size, size, 3)
    assert data.test_images.shape == (test, size, size, 3)
    for make in (nc_stream, ni_stream):
        stream = make(data, images_per_class=12)
        assert all(len(item.classes) for item in stream.train_stream)
    if name == "gtsrb":
        assert data.train_group is not None
        assert data.train_group.max() + 1 == 1307
        assert all(len(item.classes) == 43 for item in ni_stream(data).train_stream)
