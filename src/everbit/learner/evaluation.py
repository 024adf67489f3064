"""Accuracy of a learner's own classes on labeled images."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everbit.data.images import fit_images
from everbit.data.lazy_images import Images
from everbit.errors import LabelError
from everbit.learner.learner import Learner

AT_ONCE = 64
"""Images that are brought to the model's shape and classified in one go."""

CLASSES_OF_TOP5 = 10
"""Fewest classes among which being one of five says something."""

NAMED = 5
"""Unknown classes that an error names."""


@dataclass(frozen=True)
class Evaluation:
    """How many images were classified, and how well.

    top1, top5: fractions of the images; top5 is None for few classes. seconds: the engine's time, without resizing.
    """

    images: int
    top1: float
    top5: float | None
    seconds: float


def class_numbers(labels: Sequence[Hashable], names: Sequence[str], all_of_them: bool) -> NDArray[np.int64]:
    """The number in a data set of each of a learner's classes, int64 [len(labels)].

    By the set's class names, else by its class numbers, else by their order. all_of_them: a model was made for the set,
    and to know fewer classes is a mistake; a learner may know fewer, but its words must be names of the set. Raises
    LabelError where the two do not fit.
    """
    positions = {name: number for number, name in enumerate(names)}
    unknown = [label for label in labels if isinstance(label, str) and label not in positions]
    if unknown and not all_of_them:
        more = f" and {len(unknown) - NAMED} more" if len(unknown) > NAMED else ""
        raise LabelError(
            f"the learner knows classes that the data set lacks: {', '.join(unknown[:NAMED])}{more}; name a data set "
            "whose classes have the learner's names"
        )
    if all(label in positions for label in labels):
        numbers = [positions[str(label)] for label in labels]
    elif all(type(label) is int and 0 <= label < len(names) for label in labels):
        numbers = [int(label) for label in labels]  # type: ignore[call-overload]
    else:
        numbers = list(range(len(labels)))
        all_of_them = True
    if len(labels) != len(names) if all_of_them else len(labels) > len(names):
        raise LabelError(
            f"the model knows {len(labels)} classes, the data set has {len(names)}: name the data set it was made for"
        )
    return np.array(numbers, np.int64)


def evaluate(
    learner: Learner,
    images: Images,
    labels: NDArray[np.int64],
    numbers: NDArray[np.int64],
    progress: Callable[[int, float], None] | None = None,
) -> Evaluation:
    """Classifies images uint8 [N, H, W, C] of any size, labels int64 [N]; numbers: of `class_numbers`.

    progress: called with how many images are done and the accuracy so far. Raises ImageError where images do not fit.
    """
    right = among_five = done = 0
    seconds = 0.0
    for first in range(0, len(images), AT_ONCE):
        pixels = fit_images(images[first : first + AT_ONCE], learner.image_shape)
        started = time.perf_counter()
        logits = learner.logits(pixels)
        seconds += time.perf_counter() - started
        best = numbers[np.argsort(-logits, axis=1, kind="stable")[:, :5]]
        hits = best == labels[first : first + AT_ONCE, np.newaxis]
        right, among_five, done = right + int(hits[:, 0].sum()), among_five + int(hits.sum()), done + len(pixels)
        if progress is not None:
            progress(done, right / done)
    top5 = among_five / done if len(numbers) >= CLASSES_OF_TOP5 else None
    return Evaluation(done, right / done, top5, seconds)
