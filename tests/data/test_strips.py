from __future__ import annotations

import io
import itertools
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from everbit.data.strips import read_strips
from everbit.errors import DataError


def encoded(images: np.ndarray) -> bytes:
    """Images uint8 [N, H, W, 3] as one PNG strip."""
    file = io.BytesIO()
    Image.fromarray(images.reshape(-1, images.shape[2], 3)).save(file, "PNG")
    return file.getvalue()


def write(path: Path, images: np.ndarray, counts: list[int], splits: list[str], **labels: np.ndarray) -> None:
    bounds = np.cumsum([0, *counts])
    strips = [encoded(images[start:end]) for start, end in itertools.pairwise(bounds)]
    np.savez(
        path,
        strips=np.frombuffer(b"".join(strips), np.uint8),
        offsets=np.cumsum([0, *map(len, strips)]),
        counts=np.array(counts, np.int32),
        splits=np.array(splits),
        **labels,
    )


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(2).integers(0, 256, (9, 5, 4, 3), dtype=np.uint8)


def test_strips_of_a_split_are_joined_in_order(tmp_path: Path, images: np.ndarray) -> None:
    path = tmp_path / "set.npz"
    write(
        path,
        images,
        [3, 2, 4],
        ["train", "val", "train"],
        train_labels=np.arange(7, dtype=np.uint8),
        val_labels=np.ones(2),
    )
    data = read_strips(path)
    assert list(data) == ["train", "val"]
    assert np.array_equal(data["train"][0], np.concatenate([images[:3], images[5:]]))
    assert np.array_equal(data["val"][0], images[3:5])
    assert data["train"][1].dtype == np.int64
    assert data["train"][1].tolist() == list(range(7))


def test_one_split_may_name_its_labels_plainly(tmp_path: Path, images: np.ndarray) -> None:
    write(tmp_path / "set.npz", images, [9], ["all"], labels=np.arange(9))
    assert read_strips(tmp_path / "set.npz")["all"][1].tolist() == list(range(9))


def test_labels_that_do_not_match(tmp_path: Path, images: np.ndarray) -> None:
    write(tmp_path / "set.npz", images, [9], ["all"], labels=np.arange(8))
    with pytest.raises(DataError, match="'all' has 9 images but 8 labels"):
        read_strips(tmp_path / "set.npz")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        read_strips(tmp_path / "set.npz")


@pytest.mark.parametrize("damage", ["text", "truncated", "no labels", "no image", "wrong count"])
def test_damaged_file(tmp_path: Path, images: np.ndarray, damage: str) -> None:
    path = tmp_path / "set.npz"
    write(path, images, [9], ["all"], labels=np.arange(9))
    arrays = dict(np.load(path))
    if damage == "text":
        path.write_text("hello")
    elif damage == "truncated":
        path.write_bytes(path.read_bytes()[:-50])
    else:
        changes = {
            "no labels": {"other": arrays.pop("labels")} if damage == "no labels" else {},
            "no image": {"strips": np.zeros_like(arrays["strips"])},
            "wrong count": {"counts": np.array([7], np.int32)},
        }
        np.savez(path, **{**arrays, **changes[damage]})
    with pytest.raises(DataError, match="is damaged or is no archive"):
        read_strips(path)
