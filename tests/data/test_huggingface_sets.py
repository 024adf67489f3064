"""Data sets of Hugging Face's library, made in memory and saved to disk; skipped where it is not installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from everbit.data.datasets import load
from everbit.data.huggingface_sets import from_huggingface
from everbit.data.scenarios import make_stream
from everbit.errors import DataError

datasets = pytest.importorskip("datasets")

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 4, 3), np.uint8)
LABELS = [2, 0, 1, 0, 1, 2]


def split(label: Any = None, image: str = "image", labels: list[Any] | None = None) -> Any:
    features = {image: datasets.Image(), "label": label or datasets.ClassLabel(names=["cat", "dog", "eel"])}
    content = {image: [Image.fromarray(pixels) for pixels in PIXELS], "label": labels or LABELS}
    return datasets.Dataset.from_dict(content, features=datasets.Features(features))


def test_images_and_labels() -> None:
    data = from_huggingface(datasets.DatasetDict(train=split(), test=split()), name="pets")
    assert data.name == "pets"
    assert data.class_names == ("cat", "dog", "eel")
    assert data.train_labels.tolist() == LABELS
    np.testing.assert_array_equal(np.asarray(data.train_images), PIXELS)
    np.testing.assert_array_equal(data.test_images[np.array([3, 0])], PIXELS[[3, 0]])
    for item in make_stream("nc", data, experiences=3).train_stream:
        assert {p.tobytes() for p in item.images} == {
            PIXELS[i].tobytes() for i in range(6) if LABELS[i] in item.classes
        }


def test_other_names_and_labels_without_names() -> None:
    texts = split(datasets.Value("string"), "img", list("cabacb"))
    found = datasets.DatasetDict(train=texts, validation=texts)
    data = from_huggingface(found, image="img", test="validation")
    assert data.class_names == ("a", "b", "c")
    assert data.train_labels.tolist() == [2, 0, 1, 0, 2, 1]


def test_from_disk_by_name(tmp_path: Path) -> None:
    datasets.DatasetDict(train=split(), test=split()).save_to_disk(str(tmp_path / "pets"))
    data = load(f"huggingface:{tmp_path / 'pets'}")
    assert data.name == "pets"
    np.testing.assert_array_equal(np.asarray(data.fitted((5, 4, 3)).test_images), PIXELS)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"test": "validation"}, "no split 'validation': name one of train, test"),
        ({"image": "img"}, "no column img: name two of image, label"),
    ],
)
def test_what_is_wrong(names: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_huggingface(datasets.DatasetDict(train=split(), test=split()), **names)


def test_nothing_there(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"cannot load .*empty"):
        load(f"huggingface:{tmp_path / 'empty'}")
