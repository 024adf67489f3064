"""Scenarios beyond nc and ni: NICv2 of any grouped set, joint, and class orders of one's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everbit.data.dataset import Dataset
from everbit.data.scenarios import SCENARIOS, make_stream, parse_class_order
from everbit.data.stream import Stream
from everbit.data.streams import nc_stream, ni_stream
from everbit.errors import ConfigurationError


def dataset(classes: int, groups: int, frames: int = 2, name: str = "own", grouped: bool = True) -> Dataset:
    """Images [N, 1, 1, 3] that carry class, group and frame; every class is in every group."""
    labels, group, frame = (axis.ravel() for axis in np.indices((classes, groups, frames)))
    images = np.stack([labels, group, frame], axis=1).astype(np.uint8)[:, None, None]
    names = tuple(map(str, range(classes)))
    sessions = group if grouped else None
    return Dataset(name, images, labels, images[:classes], labels[:classes], names, sessions, "none", False)


def units(stream: Stream) -> list[set[tuple[int, int]]]:
    """Pairs of class and group in each experience."""
    return [{(int(a), int(b)) for a, b, _ in item.images[:, 0, 0]} for item in stream.train_stream]


def contents(stream: Stream) -> list[bytes]:
    return [item.images.tobytes() for item in stream.train_stream]


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 11), st.integers(1, 6), st.integers(0, 2**32), st.data())
def test_nicv2_deals_out_every_unit_once(classes: int, groups: int, seed: int, data: st.DataObject) -> None:
    own = dataset(classes, groups)
    first = max(1, classes // 5)
    most = classes * groups - first + 1
    if most < 2:
        return
    experiences = data.draw(st.none() | st.integers(2, most))
    stream = make_stream("nicv2", own, experiences=experiences, seed=seed)
    dealt = units(stream)
    assert len(dealt) == (experiences or most)
    assert sorted(unit for part in dealt for unit in part) == [(a, b) for a in range(classes) for b in range(groups)]
    assert len(dealt[0]) == len({label for label, _ in dealt[0]}) == first
    sizes = [len(part) for part in dealt[1:]]
    assert max(sizes) - min(sizes) <= 1
    assert all((item.images[:, 0, 0, 0] == item.labels).all() for item in stream.train_stream)
    assert contents(stream) == contents(make_stream("nicv2", own, experiences=experiences, seed=seed))


def test_nicv2_like_core50s() -> None:
    own = dataset(50, 8, 1)
    for name, size in (("nicv2_391", 1), ("nicv2_196", 2), ("nicv2_79", 5)):
        dealt = units(make_stream(name, own, seed=3))
        assert [len(part) for part in dealt] == [10] + [size] * (390 // size)


def test_nicv2_of_tracks_that_hold_one_class() -> None:
    own = dataset(6, 3, 2)
    tracks = Dataset(**{**vars(own), "train_group": own.train_labels * 3 + np.asarray(own.train_images)[:, 0, 0, 1]})
    assert units(make_stream("nicv2", tracks, seed=5)) == units(make_stream("nicv2", own, seed=5))


def test_nicv2_shares_a_cap() -> None:
    stream = make_stream("nicv2", dataset(5, 4, 9), images_per_class=10)
    counts = np.bincount(np.concatenate([item.labels for item in stream.train_stream]))
    assert counts.tolist() == [10] * 5
    with pytest.raises(ConfigurationError, match="raise it to 4 or more"):
        make_stream("nicv2", dataset(5, 4, 9), images_per_class=3)


def test_joint_is_everything_at_once() -> None:
    own = dataset(4, 3)
    (everything,) = make_stream("joint", own, seed=1).train_stream
    assert everything.classes == (0, 1, 2, 3)
    assert sorted(map(bytes, everything.images)) == sorted(map(bytes, own.train_images[:]))
    assert (np.diff(everything.labels) != 0).sum() > 4
    (some,) = make_stream("joint", own, images_per_class=2).train_stream
    assert np.bincount(some.labels).tolist() == [2] * 4
    assert make_stream("joint", own, experiences=1).train_stream[0].classes == everything.classes


def test_own_class_order() -> None:
    own = dataset(10, 2, name="cifar10")
    order = (3, 1, 2, 0, 9, 8, 7, 6, 5, 4)
    for seed in (0, 1):
        stream = make_stream("nc", own, seed=seed, class_order=order)
        assert [item.classes for item in stream.train_stream] == [(1, 3), (0, 2), (8, 9), (6, 7), (4, 5)]
    assert contents(make_stream("nc", own, class_order=order)) == contents(nc_stream(own, class_order=list(order)))
    halves = make_stream("nc", own, class_order=order, experiences=2).train_stream
    assert halves[0].classes == (0, 1, 2, 3, 9)


def test_without_one_the_streams_are_as_ever() -> None:
    own = dataset(10, 10, name="cifar10")
    assert contents(make_stream("nc", own, seed=2)) == contents(nc_stream(own, seed=2))
    assert contents(make_stream("ni", own, seed=2)) == contents(ni_stream(own, seed=2))


@pytest.mark.parametrize(
    ("scenario", "options", "message"),
    [
        ("nc", {"class_order": (0, 1, 2)}, "names 3 classes"),
        ("nc", {"class_order": (0, 1, 2, 2)}, r"names 4 classes \(3 different\).* 0 to 3 once"),
        ("nc", {"class_order": (1, 2, 3, 4)}, "0 to 3 once"),
        ("ni", {"class_order": (0, 1, 2, 3)}, "leave class_order out"),
        ("joint", {"experiences": 2}, "a joint stream has 1 experience, not 2"),
        ("nicv2", {"experiences": 1}, "choose 2 to 12"),
        ("nicv2", {"experiences": 13}, "choose 2 to 12"),
        ("nicv2_79", {}, "choose 2 to 12"),
        ("nicv2_79", {"experiences": 12}, "has 79 experiences, not 12"),
        ("nic", {}, "unknown scenario 'nic': choose one of nc, ni, nicv2, nicv2_79, nicv2_196, nicv2_391, joint"),
        ("nicv2", {"seed": -1}, "integer >= 0"),
        ("joint", {"images_per_class": 0}, "choose 1 or more"),
    ],
)
def test_wrong_requests(scenario: str, options: dict[str, Any], message: str) -> None:
    own = dataset(4, 3)
    with pytest.raises(ConfigurationError, match=message):
        make_stream(scenario, own, **({"experiences": 2} if scenario == "nc" else {}) | options)


def test_nicv2_needs_groups() -> None:
    with pytest.raises(ConfigurationError, match=r"no tracks or sessions .*choose nc or ni"):
        make_stream("nicv2", dataset(4, 3, grouped=False))


def test_parse_class_order() -> None:
    assert parse_class_order("3,1, 2") == (3, 1, 2)
    for text in ("", "a,b", "1;2", "1,,2"):
        with pytest.raises(ConfigurationError, match="write class numbers as 3,1,2,0"):
            parse_class_order(text)


def test_every_scenario_says_what_it_is() -> None:
    assert all(scenario.summary for scenario in SCENARIOS.values())
