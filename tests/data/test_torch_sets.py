"""Data sets of PyTorch: every kind of item, labels paired with images, nothing kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import Subset, TensorDataset

from everbit.data.scenarios import make_stream
from everbit.data.torch_sets import from_torch
from everbit.errors import DataError

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 4, 3), np.uint8)
LABELS = [2, 0, 1, 0, 1, 2]


class Items(TorchDataset):  # type: ignore[type-arg]
    """Items made by a function of the pixels."""

    def __init__(self, make: Any, labels: list[Any] | None = None) -> None:
        self.make, self.labels = make, labels or LABELS

    def __len__(self) -> int:
        return len(PIXELS)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.make(PIXELS[index]), self.labels[index]


@pytest.mark.parametrize(
    "make",
    [
        lambda pixels: pixels,
        lambda pixels: Image.fromarray(pixels),
        lambda pixels: torch.tensor(pixels),
        lambda pixels: torch.tensor(pixels).permute(2, 0, 1),
    ],
)
def test_kinds_of_images(make: Any) -> None:
    data = from_torch(Items(make), Items(make), class_names=["a", "b", "c"])
    assert data.train_images.shape == (6, 5, 4, 3)
    np.testing.assert_array_equal(np.asarray(data.train_images), PIXELS)
    assert data.train_labels.tolist() == LABELS
    assert data.class_names == ("a", "b", "c")
    for item in make_stream("nc", data, experiences=3).train_stream:
        expected = {PIXELS[i].tobytes() for i in range(6) if LABELS[i] in item.classes}
        assert {image.tobytes() for image in item.images} == expected


def test_gray_images_and_other_sizes() -> None:
    gray = from_torch(Items(lambda pixels: pixels[..., 0]), Items(lambda pixels: Image.fromarray(pixels[..., 0])))
    np.testing.assert_array_equal(np.asarray(gray.train_images), PIXELS[..., :1])
    np.testing.assert_array_equal(np.asarray(gray.test_images), PIXELS[..., :1])
    mixed = from_torch(Items(lambda pixels: pixels), Items(lambda pixels: pixels[:3]))
    assert mixed.fitted((5, 4, 3)).test_images.shape == (6, 5, 4, 3)
    assert np.asarray(mixed.fitted((5, 4, 3)).test_images).shape == (6, 5, 4, 3)


def test_labels_of_any_kind() -> None:
    words = from_torch(Items(np.asarray, list("cabaabc")), Items(np.asarray, list("aaabbc")))
    assert words.class_names == ("a", "b", "c")
    assert words.train_labels.tolist() == [2, 0, 1, 0, 0, 1]
    sparse = from_torch(Items(np.asarray, [10, 7, 7, 10, 7, 7]), Items(np.asarray, [7, 10, 7, 7, 7, 7]))
    assert sparse.class_names == ("7", "10")
    assert sparse.test_labels.tolist() == [0, 1, 0, 0, 0, 0]


def test_torchs_own_data_sets() -> None:
    tensors = TensorDataset(torch.tensor(PIXELS).permute(0, 3, 1, 2), torch.tensor(LABELS))
    data = from_torch(Subset(tensors, [5, 1, 2]), tensors)
    np.testing.assert_array_equal(np.asarray(data.train_images), PIXELS[[5, 1, 2]])
    assert data.train_labels.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (Items(lambda pixels: torch.tensor(pixels) / 255), Items(np.asarray), "leave out transforms"),
        (Items(lambda pixels: "path.png"), Items(np.asarray), "image 0 is str"),
        (Items(np.asarray), Items(np.asarray, [3] * 6), "test labels name no class that is known: 3"),
        (Items(np.asarray, [0.5] * 6), Items(np.asarray), "label 0.5 is a float"),
        (Subset(Items(np.asarray), []), Items(np.asarray), "training set has no length or no items"),
        (iter([1]), Items(np.asarray), "give a map-style data set"),
        (TensorDataset(torch.tensor(PIXELS)), Items(np.asarray), r"no pair \(image, label\)"),
    ],
)
def test_what_is_wrong(train: Any, test: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_torch(train, test)
