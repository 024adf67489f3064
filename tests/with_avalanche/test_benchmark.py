"""Benchmarks of Avalanche as streams, and streams learned from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("avalanche", reason='Avalanche is not installed: pip install "everbit[avalanche]"')

import torch
from avalanche.benchmarks import class_incremental_benchmark, nc_benchmark, new_instances_benchmark, ni_benchmark
from avalanche.benchmarks.utils import as_classification_dataset
from PIL import Image
from torch.utils.data import Dataset
from torchvision.transforms import Compose, Normalize, RandomHorizontalFlip, ToTensor

from everbit.avalanche.benchmark import benchmark_stream
from everbit.errors import DataError, ImageError
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings
from experiments.small_model import small_program
from with_avalanche.small_data import SIDE, colored_images, tensor_dataset

TRAIN, TEST = colored_images(4, 1), colored_images(2, 2)


class Pictures(Dataset):  # type: ignore[type-arg]
    """PIL images, as torchvision's data sets give them."""

    def __init__(self, images: Any, labels: Any, mode: str = "RGB", sizes: tuple[int, ...] = (SIDE,)) -> None:
        self.images, self.targets, self.mode, self.sizes = images, list(map(int, labels)), mode, sizes

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        side = self.sizes[index % len(self.sizes)]
        return Image.fromarray(self.images[index]).resize((side, side)).convert(self.mode), self.targets[index]


def pictures(**options: Any) -> tuple[Pictures, Pictures]:
    return Pictures(*TRAIN, **options), Pictures(*TEST, **options)


def tensors(as_floats: bool = False) -> tuple[Any, Any]:
    return tensor_dataset(*TRAIN, as_floats), tensor_dataset(*TEST, as_floats)


def of_classification(make: Any, **options: Any) -> Any:
    train, test = (as_classification_dataset(split) for split in pictures())
    return make({"train": train, "test": test}, seed=0, **options)


AUGMENTED = Compose([RandomHorizontalFlip(1.0), ToTensor(), Normalize((0.5,) * 3, (0.5,) * 3)])
BENCHMARKS = {
    "nc, uint8": lambda: nc_benchmark(*tensors(), 5, False, seed=0),
    "nc, floats": lambda: nc_benchmark(*tensors(True), 5, False, seed=0),
    "nc, pictures": lambda: nc_benchmark(*pictures(), 5, False, seed=0),
    "nc, tasks": lambda: nc_benchmark(*pictures(), 5, True, seed=0),
    "nc, augmented": lambda: nc_benchmark(
        *pictures(), 5, False, seed=0, train_transform=AUGMENTED, eval_transform=ToTensor()
    ),
    "ni": lambda: ni_benchmark(*pictures(), 4, seed=0),
    "class incremental": lambda: of_classification(class_incremental_benchmark, num_experiences=5),
}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_image_comes_once_with_its_label(name: str) -> None:
    benchmark = BENCHMARKS[name]()
    stream = benchmark_stream(benchmark)
    assert len(stream.train_stream) == len(benchmark.train_stream)
    assert stream.class_names == tuple(map(str, range(10)))
    images = np.concatenate([experience.images for experience in stream.train_stream])
    labels = np.concatenate([experience.labels for experience in stream.train_stream])
    for found, expected in (((images, labels), TRAIN), ((stream.test_images, stream.test_labels), TEST)):
        assert (found[0].dtype, found[1].dtype) == (np.uint8, np.int64)
        assert pairs(*found) == pairs(*expected)
    for index, (experience, theirs) in enumerate(zip(stream.train_stream, benchmark.train_stream, strict=True)):
        assert experience.index == index
        assert experience.classes == tuple(sorted(set(experience.labels.tolist())))
        assert experience.labels.tolist() == [int(label) for label in theirs.dataset.targets]
        if name != "ni":
            assert set(experience.classes) == set(theirs.classes_in_this_experience)


def pairs(images: np.ndarray, labels: np.ndarray) -> list[tuple[bytes, int]]:
    return sorted((image.tobytes(), int(label)) for image, label in zip(images, labels, strict=True))


def test_new_instances_of_avalanche() -> None:
    train, test = (as_classification_dataset(split) for split in pictures())
    stream = benchmark_stream(new_instances_benchmark(train, test, num_experiences=4, seed=0))
    assert [len(experience.images) for experience in stream.train_stream] == [10] * 4


def test_a_stream_is_learned() -> None:
    stream = benchmark_stream(BENCHMARKS["nc, uint8"]())
    learner = Learner(small_program(SIDE, 16), Settings(strategy="cwr", classes=10, learning_rates={"head": 0.5}))
    for experience in stream.train_stream:
        learner.partial_fit(experience.images, experience.labels.tolist())
    assert np.mean(np.array(learner.predict(stream.test_images)) == stream.test_labels) > 0.5


def test_gray_pictures_have_one_channel() -> None:
    stream = benchmark_stream(nc_benchmark(*pictures(mode="L"), 5, False, seed=0))
    assert stream.test_images.shape == (20, SIDE, SIDE, 1)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: nc_benchmark(*pictures(), 5, False, eval_transform=AUGMENTED), ImageError, "leave Normalize out"),
        (lambda: nc_benchmark(*pictures(sizes=(8, 9)), 5, False), ImageError, "8x8x3, 9x9x3: add a Resize"),
        (
            lambda: nc_benchmark(*pictures(), 5, False, eval_transform=lambda x: "no image"),
            ImageError,
            "an image is of type str",
        ),
        (
            lambda: nc_benchmark(*tensors(), 5, False, eval_transform=lambda x: x.to(torch.int32)),
            ImageError,
            "images are torch.int32",
        ),
        (lambda: nc_benchmark(*tensors(), 5, False, eval_transform=lambda x: x[0]), ImageError, "give .N, C, H, W"),
        (lambda: type("Benchmark", (), {"train_stream": [], "test_stream": []}), DataError, "make it with both"),
    ],
)
def test_mistakes_are_named(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        benchmark_stream(make())
