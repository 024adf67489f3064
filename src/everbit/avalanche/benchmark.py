"""An Avalanche benchmark as a stream of everbit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everbit.avalanche.pixels import pixels_of_image
from everbit.data.streams import Experience, Stream
from everbit.errors import DataError, ImageError


def benchmark_stream(benchmark: Any) -> Stream:
    """The train stream of a supervised benchmark, experience by experience, and its whole test stream as the test set.

    Images go through the benchmark's transforms for evaluation, so that they come without augmentation; what these
    give must be PIL images, uint8, or floats in 0..1. Class c of the benchmark is class c of the stream. Raises
    ImageError for other images or images of several sizes, DataError where an experience or the test stream is empty.
    """
    train = [_content(experience) for experience in benchmark.train_stream]
    test = [_content(experience) for experience in benchmark.test_stream]
    if not train or not test:
        raise DataError("the benchmark has no train or no test experience: make it with both streams")
    experiences = tuple(
        Experience(index, images, labels, tuple(np.unique(labels).tolist()))
        for index, (images, labels) in enumerate(train)
    )
    sizes = {images.shape[1:] for images, _ in train + test}
    if len(sizes) > 1:
        raise ImageError(f"images have the sizes {_list(sizes)}: add a Resize to the benchmark's transforms")
    test_images, test_labels = (np.concatenate(part) for part in zip(*test, strict=True))
    classes = 1 + max(int(labels.max()) for _, labels in train + test)
    return Stream(experiences, test_images, test_labels, tuple(str(number) for number in range(classes)))


def _content(experience: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images uint8 [N, H, W, C] and class numbers int64 [N] of one experience, N >= 1."""
    items = experience.dataset.eval()
    count = len(items)
    if count == 0:
        raise DataError("an experience of the benchmark has no images: leave it out")
    images, labels = [], np.empty(count, np.int64)
    for index in range(count):
        item = items[index]
        images.append(pixels_of_image(item[0]))
        labels[index] = int(item[1])
    sizes = {image.shape for image in images}
    if len(sizes) > 1:
        raise ImageError(f"images have the sizes {_list(sizes)}: add a Resize to the benchmark's transforms")
    if labels.min() < 0:
        raise DataError(f"an experience of the benchmark has the label {labels.min()}: classes are numbered from 0")
    return np.stack(images), labels


def _list(sizes: Iterable[tuple[int, ...]]) -> str:
    return ", ".join("x".join(map(str, size)) for size in sorted(sizes))
