"""Folders of folders as data sets: classes, splits, sizes, and what is wrong with others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from everbit.data.datasets import load
from everbit.data.scenarios import make_stream
from everbit.errors import DataError, ImageError


def picture(path: Path, value: int, size: tuple[int, int] = (8, 6), mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, (value,) * len(mode) if mode != "L" else value).save(path)


def test_train_and_test(tmp_path: Path) -> None:
    for split, count in (("train", 3), ("test", 2)):
        for number, label in enumerate(("dog", "cat", "ant")):
            for index in range(count):
                picture(tmp_path / split / label / "deep" / f"{index}.png", 10 * number + index)
    picture(tmp_path / "train" / ".cache" / "a.png", 1)
    picture(tmp_path / "train" / "ant" / ".hidden.png", 1)
    (tmp_path / "train" / "dog" / "notes.txt").write_text("no image")
    (tmp_path / "train" / "empty").mkdir()
    data = load(f"folder:{tmp_path}")
    assert data.class_names == ("ant", "cat", "dog")
    assert data.train_labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert data.test_labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert data.train_images.shape == (9, 6, 8, 3)
    assert data.train_images[:][:, 0, 0, 0].tolist() == [20, 21, 22, 10, 11, 12, 0, 1, 2]
    assert data.test_images[:][:, 0, 0, 0].tolist() == [20, 21, 10, 11, 0, 1]
    assert (data.name, data.train_group) == (tmp_path.name, None)


def test_a_part_is_held_out_where_there_is_no_test_set(tmp_path: Path) -> None:
    for label, count in (("a", 10), ("b", 2), ("train", 4)):
        for index in range(count):
            picture(tmp_path / label / f"{index}.jpg", index)
    data, again = load(str(tmp_path)), load(str(tmp_path))
    assert np.bincount(data.train_labels).tolist() == [8, 1, 3]
    assert np.bincount(data.test_labels).tolist() == [2, 1, 1]
    train, test = np.asarray(data.train_images), np.asarray(data.test_images)
    seen = [
        (label, int(p[0, 0, 0]))
        for images, labels in ((train, data.train_labels), (test, data.test_labels))
        for p, label in zip(images, labels.tolist(), strict=True)
    ]
    assert sorted(seen) == [(0, i) for i in range(10)] + [(1, 0), (1, 1)] + [(2, i) for i in range(4)]
    np.testing.assert_array_equal(np.asarray(again.test_images), test)


def test_images_of_any_size_come_to_the_models(tmp_path: Path) -> None:
    for number, label in enumerate("ab"):
        for index in range(4):
            picture(tmp_path / label / f"{index}.png", 50 + number, (5 + index, 9))
        picture(tmp_path / label / "gray.png", 50 + number, (3, 3), "L")
    data = load(f"folder:{tmp_path}").fitted((4, 4, 3))
    stream = make_stream("nc", data, experiences=2)
    for item in stream.train_stream:
        assert item.images.shape == (4, 4, 4, 3)
        assert (item.images == 50 + item.labels[:, None, None, None]).all()


def test_gray_folders(tmp_path: Path) -> None:
    for label in "ab":
        for index in range(2):
            picture(tmp_path / label / f"{index}.png", 9, mode="L")
    assert load(f"folder:{tmp_path}").train_images.shape == (2, 6, 8, 1)


def test_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is no folder"):
        load(f"folder:{tmp_path / 'absent'}")
    with pytest.raises(DataError, match=r"0 class\(es\): lay it out as train/CLASS/IMAGE"):
        load(f"folder:{tmp_path}")
    picture(tmp_path / "a" / "0.png", 1)
    picture(tmp_path / "b" / "0.png", 1)
    with pytest.raises(DataError, match="class 'a' has a single image"):
        load(f"folder:{tmp_path}")
    with pytest.raises(DataError, match=r"unknown data set 'imagenet'.*or give folder:PATH"):
        load("imagenet")
    with pytest.raises(DataError, match="unknown data set 'directory:x'"):
        load("directory:x")


def test_unknown_test_classes_and_damaged_images(tmp_path: Path) -> None:
    for label in "ab":
        picture(tmp_path / "train" / label / "0.png", 1)
        picture(tmp_path / "test" / label / "0.png", 1)
    picture(tmp_path / "test" / "c" / "0.png", 1)
    with pytest.raises(DataError, match=r"classes without training images \(c\)"):
        load(f"folder:{tmp_path}")
    (tmp_path / "test" / "c" / "0.png").unlink()
    (tmp_path / "train" / "b" / "0.png").write_bytes(b"no image")
    with pytest.raises(ImageError, match=r"b/0.png cannot be read"):
        np.asarray(load(f"folder:{tmp_path}").train_images)
    (tmp_path / "train" / "a" / "0.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"a/0.png cannot be read"):
        load(f"folder:{tmp_path}")
