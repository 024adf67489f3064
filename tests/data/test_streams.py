"""Streams: nothing lost, nothing split, nothing shuffled apart, whatever the data set."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everbit.data.datasets import Dataset
from everbit.data.streams import PROTOCOLS, Stream, nc_stream, ni_stream
from everbit.errors import ConfigurationError, DataError


def make_dataset(counts: list[int], name: str = "own", group: np.ndarray | None = None) -> Dataset:
    """Images [N, 1, 2, 3] that carry their own number (two bytes) and label (third), sorted by class."""
    labels = np.repeat(np.arange(len(counts)), counts)
    images = np.zeros((len(labels), 1, 2, 3), np.uint8)
    images[:, 0, 0, 0], images[:, 0, 0, 1] = np.divmod(np.arange(len(labels)), 256)
    images[:, 0, 0, 2] = labels
    names = tuple(f"class {label}" for label in range(len(counts)))
    return Dataset(name, images, labels, images[:7], labels[:7], names, group, "none", False)


def numbers(images: np.ndarray) -> np.ndarray:
    return images[:, 0, 0, 0].astype(int) * 256 + images[:, 0, 0, 1]


def contents(stream: Stream) -> list[tuple[list[int], list[int]]]:
    return [(numbers(item.images).tolist(), item.labels.tolist()) for item in stream.train_stream]


def check_invariants(stream: Stream, dataset: Dataset) -> None:
    seen = np.concatenate([numbers(item.images) for item in stream.train_stream])
    assert len(set(seen.tolist())) == len(seen)
    for index, item in enumerate(stream.train_stream):
        assert item.index == index
        assert len(item.images) == len(item.labels) > 0
        assert (item.images[:, 0, 0, 2] == item.labels).all()
        assert item.classes == tuple(sorted(set(item.labels.tolist())))
    assert stream.test_images is dataset.test_images
    assert stream.test_labels is dataset.test_labels
    assert stream.class_names == dataset.class_names


class_counts = st.lists(st.integers(1, 12), min_size=1, max_size=12)
seeds = st.integers(0, 2**32)


@settings(deadline=None, max_examples=60)
@given(class_counts, seeds, st.none() | st.integers(1, 14), st.data())
def test_nc(counts: list[int], seed: int, cap: int | None, data: st.DataObject) -> None:
    dataset = make_dataset(counts)
    experiences = data.draw(st.sampled_from([n for n in range(1, len(counts) + 1) if len(counts) % n == 0]))
    stream = nc_stream(dataset, experiences, seed, cap)
    check_invariants(stream, dataset)
    assert len(stream.train_stream) == experiences
    assert {len(item.classes) for item in stream.train_stream} == {len(counts) // experiences}
    assert sorted(label for item in stream.train_stream for label in item.classes) == list(range(len(counts)))
    kept = np.bincount(np.concatenate([item.labels for item in stream.train_stream]), minlength=len(counts))
    assert kept.tolist() == [min(count, cap or count) for count in counts]
    assert contents(stream) == contents(nc_stream(dataset, experiences, seed, cap))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(3, 12), min_size=1, max_size=8), seeds, st.integers(1, 3), st.none() | st.integers(3, 14))
def test_ni_without_groups(counts: list[int], seed: int, experiences: int, cap: int | None) -> None:
    dataset = make_dataset(counts)
    stream = ni_stream(dataset, experiences, seed, cap)
    check_invariants(stream, dataset)
    assert len(stream.train_stream) == experiences
    assert all(item.classes == tuple(range(len(counts))) for item in stream.train_stream)
    kept = np.bincount(np.concatenate([item.labels for item in stream.train_stream]))
    if cap is None:
        assert kept.tolist() == counts
        sizes = [len(item.labels) for item in stream.train_stream]
        assert max(sizes) - min(sizes) <= len(counts)
    else:
        assert (kept <= np.minimum(counts, cap)).all()
    assert contents(stream) == contents(ni_stream(dataset, experiences, seed, cap))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(2, 5), min_size=1, max_size=6), seeds, st.data())
def test_ni_never_splits_a_track(tracks_of_class: list[int], seed: int, data: st.DataObject) -> None:
    frames = [data.draw(st.integers(1, 4)) for _ in range(sum(tracks_of_class))]
    ends = np.cumsum(tracks_of_class)
    counts = [sum(frames[end - size : end]) for size, end in zip(tracks_of_class, ends, strict=True)]
    group = 100 - np.repeat(np.arange(len(frames)), frames)
    dataset = make_dataset(counts, group=group)
    stream = ni_stream(dataset, 2, seed)
    check_invariants(stream, dataset)
    assert sum(len(item.labels) for item in stream.train_stream) == sum(counts)
    assert all(item.classes == tuple(range(len(counts))) for item in stream.train_stream)
    tracks = [set(group[numbers(item.images)].tolist()) for item in stream.train_stream]
    assert not tracks[0] & tracks[1]


def test_ni_deals_out_whole_sessions() -> None:
    session = np.tile([0, 1, 3, 4, 6, 7], 10)
    dataset = make_dataset([12] * 5, "coil", session)
    stream = ni_stream(dataset, seed=3)
    check_invariants(stream, dataset)
    sessions = [set(session[numbers(item.images)].tolist()) for item in stream.train_stream]
    assert sorted(sessions, key=min) == [{0}, {1}, {3}, {4}, {6}, {7}]
    streams = [ni_stream(dataset, seed=seed) for seed in range(9)]
    assert len({tuple(min(session[numbers(item.images)]) for item in other.train_stream) for other in streams}) > 1


def test_ni_shares_the_cap() -> None:
    stream = ni_stream(make_dataset([20] * 3), 4, images_per_class=6)
    assert [np.bincount(item.labels).tolist() for item in stream.train_stream] == [[2] * 3, [2] * 3, [1] * 3, [1] * 3]


def test_images_are_shuffled_inside_an_experience() -> None:
    for stream in (nc_stream(make_dataset([50] * 4), 2), ni_stream(make_dataset([50] * 4), 2)):
        for item in stream.train_stream:
            assert (np.diff(item.labels) != 0).sum() > 20


def test_seeds_give_different_orders_and_choices() -> None:
    dataset = make_dataset([30] * 10)
    streams = [nc_stream(dataset, 5, seed, 10) for seed in range(6)]
    assert len({tuple(item.classes for item in stream.train_stream) for stream in streams}) == 6
    assert len({frozenset(n for part in contents(stream) for n in part[0]) for stream in streams}) == 6


def test_a_smaller_cap_keeps_the_class_order_and_takes_a_part() -> None:
    dataset = make_dataset([30] * 10)
    small, large = nc_stream(dataset, 5, 4, 5), nc_stream(dataset, 5, 4, 20)
    for few, many in zip(small.train_stream, large.train_stream, strict=True):
        assert few.classes == many.classes
        assert set(numbers(few.images)) < set(numbers(many.images))


@pytest.mark.parametrize(("name", "classes"), [("gtsrb", 43), ("coil", 50), ("cifar10", 10), ("cifar100", 100)])
def test_usual_protocols_cover_all_classes(name: str, classes: int) -> None:
    stream = nc_stream(make_dataset([1] * classes, name))
    assert tuple(len(item.classes) for item in stream.train_stream) == PROTOCOLS[name].nc_sizes
    assert sum(PROTOCOLS[name].nc_sizes) == classes


@pytest.mark.parametrize("experiences", [0, -1, 3, 7, 20])
def test_nc_count_that_does_not_divide(experiences: int) -> None:
    with pytest.raises(ConfigurationError, match=r"choose one of 1, 2, 5, 10$"):
        nc_stream(make_dataset([2] * 10, "cifar10"), experiences)


def test_nc_of_an_own_data_set_needs_a_count() -> None:
    with pytest.raises(ConfigurationError, match=r"6 classes into an unnamed number of .* choose one of 1, 2, 3, 6$"):
        nc_stream(make_dataset([2] * 6))


def test_the_usual_uneven_count_is_named_among_the_valid_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"choose one of 1, 8, 43$"):
        nc_stream(make_dataset([1] * 43, "gtsrb"), 9)


def test_a_part_of_a_known_set_does_not_follow_its_protocol() -> None:
    part = make_dataset([3] * 6, "cifar10")
    assert len(nc_stream(part, 3).train_stream) == 3
    with pytest.raises(ConfigurationError, match=r"choose one of 1, 2, 3, 6$"):
        nc_stream(part)


@pytest.mark.parametrize("experiences", [None, 0, 5])
def test_ni_count_out_of_range(experiences: int | None) -> None:
    with pytest.raises(ConfigurationError, match=r"choose 1 to 4$"):
        ni_stream(make_dataset([4, 9]), experiences)


def test_cap_and_seed_out_of_range() -> None:
    dataset = make_dataset([9, 9])
    with pytest.raises(ConfigurationError, match="raise it to 3 or more"):
        ni_stream(dataset, 3, images_per_class=2)
    for make in (nc_stream, ni_stream):
        with pytest.raises(ConfigurationError, match="choose 1 or more"):
            make(dataset, 2, images_per_class=0)
        with pytest.raises(ConfigurationError, match="integer >= 0"):
            make(dataset, 2, seed=-1)


def test_a_class_without_training_images() -> None:
    dataset = replace(make_dataset([4, 4]), class_names=("a", "b", "c"))
    for make in (nc_stream, ni_stream):
        with pytest.raises(DataError, match="no training image of class 'c'"):
            make(dataset, 1)
