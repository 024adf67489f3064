"""A data set as a stream of experiences, one function for each scenario (docs/method.md 1.5).

In Avalanche's words, an experience brings new classes (NC), new instances (NI) or either (NIC). Streams that were
published with a data set are taken as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everbit.data.dataset import Dataset
from everbit.data.permutation import seeded_permutation
from everbit.data.stream import (
    CLASS_ORDER,
    FIRST_GROUP,
    PARTS,
    Experience,
    Stream,
    build,
    check_request,
    choose,
    group_numbers,
    share,
)
from everbit.errors import ConfigurationError

__all__ = ["PROTOCOLS", "Experience", "Stream", "joint_stream", "nc_stream", "ni_stream", "nicv2_stream"]

FIRST_CLASSES = 5
"""One class of so many is in the first experience of a NICv2 stream: 10 of CORe50's 50."""


@dataclass(frozen=True)
class Protocol:
    """The usual experiences of a data set: classes in each for NC, number of experiences for NI."""

    nc_sizes: tuple[int, ...]
    ni_experiences: int


PROTOCOLS: dict[str, Protocol] = {
    "cifar10": Protocol((2,) * 5, 10),
    "cifar100": Protocol((10,) * 10, 10),
    "gtsrb": Protocol((8,) + (5,) * 7, 7),
    "coil": Protocol((10,) + (5,) * 8, 6),
    "core50": Protocol((10,) + (5,) * 8, 8),
    "core50_category": Protocol((2,) * 5, 8),
    "fashion_demo": Protocol((2,) * 5, 10),
    "fashion_mnist": Protocol((2,) * 5, 10),
    "mnist": Protocol((2,) * 5, 10),
    "tiny_imagenet": Protocol((20,) * 10, 10),
}


def nc_stream(
    dataset: Dataset,
    experiences: int | None = None,
    seed: int = 0,
    images_per_class: int | None = None,
    class_order: Sequence[int] | None = None,
) -> Stream:
    """New classes: every class comes in one experience.

    The order is ``class_order`` (all class numbers, each once), else the published one of run ``seed``, else drawn by
    ``seed``. ``experiences`` is the data set's usual number in ``PROTOCOLS`` or any that divides its classes evenly.
    ``images_per_class`` caps the training images of a class, drawn by ``seed``; a smaller cap takes a part of a larger
    one's.
    Raises ConfigurationError for an argument out of range, DataError where a class has no training image.
    """
    check_request(dataset, seed, images_per_class)
    if class_order is None and (found := _published(dataset, "nc", experiences, seed, images_per_class)):
        return found
    sizes = _nc_sizes(dataset, experiences)
    if class_order is None:
        order = seeded_permutation(len(dataset.class_names), seed, CLASS_ORDER)
    else:
        order = _checked_order(dataset, class_order)
    groups = np.split(order, np.cumsum(sizes)[:-1])
    chosen = [
        np.concatenate([choose(dataset, int(label), seed, images_per_class) for label in group]) for group in groups
    ]
    return build(dataset, chosen, seed)


def ni_stream(
    dataset: Dataset, experiences: int | None = None, seed: int = 0, images_per_class: int | None = None
) -> Stream:
    """New instances: every experience brings new images of the same classes.

    Published streams apart, images with one group number (``Dataset.train_group``) stay in one experience. Where every
    group holds one class (a video track, or a single image of an ungrouped set) the groups of each class are dealt out
    evenly, so each experience has all classes; where groups span classes (sessions) they are dealt out as they are.
    ``experiences`` is the data set's usual number in ``PROTOCOLS`` or at most the number of groups to deal.
    ``images_per_class`` caps a class's training images over the whole stream, shared evenly by the experiences.
    Raises ConfigurationError for an argument out of range, DataError where a class has no training image.
    """
    check_request(dataset, seed, images_per_class)
    if found := _published(dataset, "ni", experiences, seed, images_per_class):
        return found
    groups = group_numbers(dataset)
    pools = _pools(dataset, groups)
    largest = min(len(pool) for pool in pools)
    if experiences is None and dataset.name in PROTOCOLS:
        experiences = PROTOCOLS[dataset.name].ni_experiences
    if experiences is None or not 1 <= experiences <= largest:
        raise ConfigurationError(
            f"{dataset.name} cannot make {_count(experiences)} new-instances experiences: choose 1 to {largest}"
        )
    part_of_group = np.empty(int(groups.max()) + 1, np.int64)
    for number, pool in enumerate(pools):
        # Starting the deal one further for each pool keeps the experiences equally large when the pools do not divide.
        dealt = (np.arange(len(pool)) + number) % experiences
        part_of_group[pool[seeded_permutation(len(pool), seed, PARTS, number)]] = dealt
    part = part_of_group[groups]
    dealt_images = [np.flatnonzero(part == index) for index in range(experiences)]
    return build(dataset, share(dataset, dealt_images, seed, images_per_class), seed)


def nicv2_stream(
    dataset: Dataset, experiences: int | None = None, seed: int = 0, images_per_class: int | None = None
) -> Stream:
    """New instances and classes, in many small experiences (NICv2 of CORe50; R21).

    CORe50's are published with 79, 196 or 391 experiences, 391 where none is named. Another data set needs groups: the
    images of one class in one group are a unit, the first experience has one unit of each of a fifth of the classes,
    and the others, in an order drawn by ``seed``, come one an experience, or evenly in as many ``experiences`` as are
    named. ``images_per_class`` caps a class's training images over the whole stream, shared evenly by the experiences.
    Raises ConfigurationError for an argument out of range, DataError where a class has no training image.
    """
    check_request(dataset, seed, images_per_class)
    if dataset.published is not None:
        lists = [name for name in dataset.published.scenarios if name.startswith("nicv2_")]
        name = f"nicv2_{experiences}" if experiences is not None else lists[-1]
        if found := _published(dataset, name, experiences, seed, images_per_class):
            return found
        known = ", ".join(name.removeprefix("nicv2_") for name in lists)
        raise ConfigurationError(f"{dataset.name} was not published with {experiences} experiences: choose of {known}")
    if dataset.train_group is None:
        raise ConfigurationError(
            f"{dataset.name} has no tracks or sessions that a NICv2 stream could deal out: choose nc or ni"
        )
    pairs = np.stack([dataset.train_labels, group_numbers(dataset)])
    found_units, unit = np.unique(pairs, axis=1, return_inverse=True)
    unit = unit.reshape(-1)
    order = seeded_permutation(len(dataset.class_names), seed, CLASS_ORDER)
    first = [
        _one_unit(np.flatnonzero(found_units[0] == label), seed, int(label))
        for label in order[: max(1, len(order) // FIRST_CLASSES)]
    ]
    others = np.setdiff1d(np.arange(found_units.shape[1]), first)
    others = others[seeded_permutation(len(others), seed, PARTS)]
    largest = len(others) + 1
    if experiences is not None and not 1 < experiences <= largest:
        raise ConfigurationError(f"{dataset.name} cannot make {experiences} NICv2 experiences: choose 2 to {largest}")
    parts = [np.array(first), *np.array_split(others, (experiences or largest) - 1)]
    dealt = [np.flatnonzero(np.isin(unit, part)) for part in parts]
    return build(dataset, share(dataset, dealt, seed, images_per_class), seed)


def joint_stream(
    dataset: Dataset, experiences: int | None = None, seed: int = 0, images_per_class: int | None = None
) -> Stream:
    """All classes and images in one experience: what a learner reaches that need not learn continually.

    Raises ConfigurationError for an argument out of range, DataError where a class has no training image.
    """
    check_request(dataset, seed, images_per_class)
    if experiences not in (None, 1):
        raise ConfigurationError(f"a joint stream has 1 experience, not {experiences}: leave experiences out")
    everything = [choose(dataset, label, seed, images_per_class) for label in range(len(dataset.class_names))]
    return build(dataset, [np.concatenate(everything)], seed)


def _one_unit(candidates: NDArray[np.int64], seed: int, label: int) -> int:
    """One of the units of a class, drawn by ``seed``."""
    return int(candidates[seeded_permutation(len(candidates), seed, FIRST_GROUP, label)[0]])


def _published(
    dataset: Dataset, scenario: str, experiences: int | None, seed: int, images_per_class: int | None
) -> Stream | None:
    """The published stream, None where the data set has none of that name."""
    if dataset.published is None or scenario not in dataset.published.scenarios:
        return None
    found = dataset.published.stream(scenario, seed)
    if experiences not in (None, len(found.experiences)):
        raise ConfigurationError(
            f"{scenario} of {dataset.name} was published with {len(found.experiences)} experiences, not {experiences}: "
            "leave experiences out"
        )
    chosen = share(dataset, found.experiences, seed, images_per_class)
    everything = len(found.test) == len(dataset.test_labels)
    return build(dataset, chosen, seed, None if everything else found.test)


def _checked_order(dataset: Dataset, class_order: Sequence[int]) -> NDArray[np.int64]:
    classes = len(dataset.class_names)
    if sorted(class_order) != list(range(classes)):
        raise ConfigurationError(
            f"class_order names {len(class_order)} classes ({len(set(class_order))} different): give each of "
            f"{dataset.name}'s class numbers 0 to {classes - 1} once"
        )
    return np.array(class_order, np.int64)


def _nc_sizes(dataset: Dataset, experiences: int | None) -> tuple[int, ...]:
    """Number of classes in each experience."""
    classes = len(dataset.class_names)
    usual = PROTOCOLS[dataset.name].nc_sizes if dataset.name in PROTOCOLS else ()
    if sum(usual) != classes:
        usual = ()
    if usual and experiences in (None, len(usual)):
        return usual
    if experiences is None or experiences < 1 or classes % experiences:
        valid = [count for count in range(1, classes + 1) if classes % count == 0 or len(usual) == count]
        raise ConfigurationError(
            f"{dataset.name} cannot split {classes} classes into {_count(experiences)} new-classes experiences: "
            f"choose one of {', '.join(map(str, valid))}"
        )
    return (classes // experiences,) * experiences


def _count(experiences: int | None) -> str:
    return "an unnamed number of" if experiences is None else str(experiences)


def _pools(dataset: Dataset, groups: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The pools of group numbers to be dealt out evenly: those of each class, or all where groups span classes."""
    first = np.unique(groups, return_index=True)[1]
    label_of_group = dataset.train_labels[first]
    if (label_of_group[groups] != dataset.train_labels).any():
        return [np.arange(len(first))]
    return [np.flatnonzero(label_of_group == label) for label in range(len(dataset.class_names))]
