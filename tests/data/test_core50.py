"""CORe50 in its authors' layout, made here of colored frames and, where present, of real ones."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.core50_layout import NICV2, TEST_SESSIONS, write_core50
from everbit.data.core50 import CATEGORIES
from everbit.data.datasets import Dataset, load
from everbit.data.scenarios import make_stream
from everbit.data.stream import Stream
from everbit.data.strips import read_strips
from everbit.errors import ConfigurationError, DataError

SCENARIOS = ["nc", "ni", *(f"nicv2_{count}" for count in NICV2)]


@cache
def drawn_frames() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One frame of each object in each session whose pixels name object, session and their own number."""
    sessions, objects = (axis.ravel() for axis in np.meshgrid(np.arange(1, 12), np.arange(1, 51), indexing="ij"))
    images = np.zeros((len(objects), 128, 128, 3), np.uint8)
    images[..., 0], images[..., 1] = objects[:, None, None], sessions[:, None, None]
    images[:, :64, :, 2], images[:, 64:, :, 2] = (
        (np.arange(len(objects)) // 256)[:, None, None],
        (np.arange(len(objects)) % 256)[:, None, None],
    )
    return images, objects, sessions


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a drawn CORe50 of 550 frames."""
    folder = tmp_path_factory.mktemp("drawn")
    write_core50(folder, *drawn_frames())
    return folder


def damage(root: Path, tmp_path: Path, name: str, content: Any) -> Path:
    """A copy of the drawn CORe50 with one file changed."""
    folder = tmp_path / "core50"
    folder.mkdir()
    (folder / "core50_128x128").symlink_to(root / "core50" / "core50_128x128")
    for file in ("paths.pkl", "LUP.pkl", "labels.pkl"):
        (folder / file).write_bytes((root / "core50" / file).read_bytes())
    (folder / name).write_bytes(content if isinstance(content, bytes) else pickle.dumps(content, 2))
    return tmp_path


def released(root: Path, name: str) -> Any:
    return pickle.loads((root / "core50" / name).read_bytes())


def numbers(images: np.ndarray) -> list[int]:
    """The position in paths.pkl of each drawn frame."""
    return (images[:, 0, 0, 2].astype(int) * 256 + images[:, -1, 0, 2]).tolist()


def check_run(stream: Stream, lists: list[list[int]]) -> None:
    """The released lists, in shuffled order, and no other frame."""
    *parts, test = lists
    assert len(stream.train_stream) == len(parts)
    for experience, part in zip(stream.train_stream, parts, strict=True):
        images = experience.images
        assert sorted(numbers(images)) == sorted(part)
        assert experience.classes == tuple(sorted(set(experience.labels.tolist())))
    assert sorted(numbers(np.asarray(stream.test_images))) == sorted(test)


def in_memory(data: Dataset) -> Dataset:
    """The same images, decoded once for many streams."""
    return replace(data, train_images=np.asarray(data.train_images), test_images=np.asarray(data.test_images))


def test_the_data_set(root: Path) -> None:
    data = load("core50", root)
    assert data.train_images.shape == (400, 128, 128, 3)
    assert data.test_images.shape == (150, 128, 128, 3)
    train, test = np.asarray(data.train_images), np.asarray(data.test_images)
    assert (train[:, 0, 0, 0] == data.train_labels + 1).all()
    assert (test[:, 0, 0, 0] == data.test_labels + 1).all()
    assert data.train_group is not None
    assert (train[:, 0, 0, 1] == data.train_group).all()
    assert set(test[:, 0, 0, 1].tolist()) == set(TEST_SESSIONS)
    assert data.class_names[0] == "plug_adapter1"
    assert data.class_names[49] == "remote_control5"
    assert len(data.class_names) == 50


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_run_is_the_released_one(root: Path, scenario: str) -> None:
    data, lookup = in_memory(load("core50", root)), released(root, "LUP.pkl")
    for run in range(10):
        stream = make_stream(scenario, data, seed=run)
        check_run(stream, lookup[scenario][run])
        for experience in stream.train_stream:
            assert (experience.images[:, 0, 0, 0] == experience.labels + 1).all()
        assert (np.asarray(stream.test_images)[:, 0, 0, 0] == stream.test_labels + 1).all()


def test_numbers_of_experiences(root: Path) -> None:
    data = load("core50", root)
    counts = {name: len(make_stream(name, data).train_stream) for name in [*SCENARIOS, "nicv2"]}
    assert counts == {"nc": 9, "ni": 8, "nicv2_79": 79, "nicv2_196": 196, "nicv2_391": 391, "nicv2": 391}
    assert len(make_stream("nicv2", data, experiences=79).train_stream) == 79
    assert [len(item.classes) for item in make_stream("nc", data).train_stream] == [10] + [5] * 8
    assert all(len(item.classes) == 50 for item in make_stream("ni", data).train_stream)


def test_released_labels_of_nc_number_the_objects_anew(root: Path) -> None:
    """The reason that they are not used: the same number is another object in another run."""
    lookup, labels = released(root, "LUP.pkl")["nc"], released(root, "labels.pkl")["nc"]
    objects = drawn_frames()[1] - 1
    maps = [
        dict(zip(objects[lists[-1]].tolist(), numbers[-1], strict=True))
        for lists, numbers in zip(lookup, labels, strict=True)
    ]
    assert len({tuple(sorted(one.items())) for one in maps}) > 1
    data = load("core50", root)
    for run in range(10):
        first = make_stream("nc", data, seed=run).train_stream[0]
        assert first.classes == tuple(range(0, 50, 5))


def test_categories(root: Path) -> None:
    data = load("core50_category", root)
    assert data.class_names == CATEGORIES
    assert (np.asarray(data.train_images)[:, 0, 0, 0] - 1 == data.train_labels * 5 + (np.arange(400) % 50) % 5).all()
    lookup = released(root, "LUP.pkl")
    for scenario in ("ni", "nicv2_79"):
        check_run(make_stream(scenario, data, seed=4), lookup[scenario][4])
    assert [item.classes for item in make_stream("ni", data).train_stream] == [tuple(range(10))] * 8
    classes = [label for item in make_stream("nc", data).train_stream for label in item.classes]
    assert sorted(classes) == list(range(10))  # drawn here: the released NC brings objects, not categories


def test_real_frames(research_data: Path, tmp_path: Path) -> None:
    path = research_data / "core50_90frames.npz"
    if not path.is_file():
        pytest.skip(f"{path} is missing")
    ((frames, categories),) = read_strips(path).values()
    with np.load(path) as archive:
        objects, sessions = archive["object_id"].astype(int), archive["session"].astype(int)
    _, lookup, _ = write_core50(tmp_path, frames, objects, sessions)
    data, category = in_memory(load("core50", tmp_path)), load("core50_category", tmp_path)
    held_out = np.isin(sessions, TEST_SESSIONS)
    assert (data.train_labels == objects[~held_out] - 1).all()
    assert (data.test_labels == objects[held_out] - 1).all()
    assert (category.train_labels == categories[~held_out]).all()
    assert (np.asarray(data.train_images) == frames[~held_out]).all()
    assert data.train_group is not None
    assert (data.train_group == sessions[~held_out]).all()
    object_of = {frame.tobytes(): item - 1 for frame, item in zip(frames, objects.tolist(), strict=True)}
    session_of = {frame.tobytes(): item for frame, item in zip(frames, sessions.tolist(), strict=True)}
    # 90 frames lack some objects in training sessions, which a class must not: the lists are asked for directly.
    assert data.published is not None
    for scenario in SCENARIOS:
        for run in range(10):
            found = data.published.stream(scenario, run)
            *parts, test = lookup[scenario][run]
            assert len(found.experiences) == len(parts)
            for positions, part in zip(found.experiences, parts, strict=True):
                images = data.train_images[positions]
                assert (images == frames[part]).all()
                assert [object_of[image.tobytes()] for image in images] == data.train_labels[positions].tolist()
                assert not {session_of[image.tobytes()] for image in images} & set(TEST_SESSIONS)
            assert (data.test_images[found.test] == frames[test]).all()


def test_a_cap_is_shared_by_the_experiences(root: Path) -> None:
    data = load("core50", root)
    stream = make_stream("nc", data, images_per_class=3)
    assert [len(item.labels) for item in stream.train_stream] == [30] + [15] * 8
    with pytest.raises(ConfigurationError, match="less than one for each of 8 experiences"):
        make_stream("ni", data, images_per_class=3)


def test_an_own_class_order(root: Path) -> None:
    order = list(range(49, -1, -1))
    stream = make_stream("nc", load("core50", root), class_order=order)
    assert [item.classes for item in stream.train_stream][:2] == [tuple(range(40, 50)), tuple(range(35, 40))]
    assert sum(len(item.labels) for item in stream.train_stream) == 400


def test_a_smaller_released_test_set(root: Path, tmp_path: Path) -> None:
    lookup, labels = released(root, "LUP.pkl"), released(root, "labels.pkl")
    for run in lookup["nicv2_79"]:
        run[-1] = run[-1][::-3]
    for run in labels["nicv2_79"]:
        run[-1] = run[-1][::-3]
    damage(root, tmp_path, "LUP.pkl", lookup)
    (tmp_path / "core50" / "labels.pkl").write_bytes(pickle.dumps(labels, 2))
    stream = make_stream("nicv2_79", load("core50", tmp_path), seed=1)
    check_run(stream, lookup["nicv2_79"][1])
    assert (np.asarray(stream.test_images)[:, 0, 0, 0] == stream.test_labels + 1).all()


def test_lists_of_arrays(root: Path, tmp_path: Path) -> None:
    lookup = {
        name: [[np.array(part) for part in run] for run in runs] for name, runs in released(root, "LUP.pkl").items()
    }
    data = load("core50", damage(root, tmp_path, "LUP.pkl", lookup))
    check_run(make_stream("nc", data, seed=2), released(root, "LUP.pkl")["nc"][2])


def test_wrong_requests(root: Path) -> None:
    data = load("core50", root)
    with pytest.raises(ConfigurationError, match="runs 0 to 9, run 10 is none"):
        make_stream("nc", data, seed=10)
    with pytest.raises(ConfigurationError, match="published with 9 experiences, not 5"):
        make_stream("nc", data, experiences=5)
    with pytest.raises(ConfigurationError, match="choose of 79, 196, 391"):
        make_stream("nicv2", data, experiences=80)


def test_missing_parts_say_what_to_do(root: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"core50 is not in .*everbit data.*vlomonaco.github.io/core50"):
        load("core50", tmp_path)
    (tmp_path / "core50").mkdir()
    with pytest.raises(DataError, match=r"unpack core50_128x128.zip there"):
        load("core50", tmp_path)
    (tmp_path / "core50" / "core50_128x128").mkdir()
    with pytest.raises(DataError, match=r"cannot read .*paths.pkl"):
        load("core50", tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("paths.pkl", []),
        ("paths.pkl", {"a": 1}),
        ("paths.pkl", ["../../etc/passwd"]),
        ("paths.pkl", ["s1/o1/../../../secret.png"]),
        ("paths.pkl", ["s1/o51/C_01_51_000.png"]),
        ("paths.pkl", ["s1/o0/C_01_00_000.png"]),
        ("paths.pkl", [7]),
        ("LUP.pkl", [1, 2]),
        ("labels.pkl", b"cos\nsystem\n(S'touch hacked'\ntR."),
    ],
)
def test_damaged_files(root: Path, tmp_path: Path, name: str, content: Any) -> None:
    with pytest.raises(DataError, match="cannot be read as the data set 'core50'"):
        load("core50", damage(root, tmp_path, name, content))
    assert not Path("hacked").exists()


def changed(lists: Any, run: int, part: int, change: Any) -> Any:
    lists["nc"][run][part] = change(lists["nc"][run][part])
    return lists


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("LUP.pkl", lambda part: part[1:], "do not agree"),
        ("LUP.pkl", lambda part: [*part[:-1], 550], "do not agree"),
        ("LUP.pkl", lambda part: [*part[:-1], -1], "do not agree"),
        ("LUP.pkl", lambda part: [*part[:-1], 2**70], "out of range"),
        ("LUP.pkl", lambda part: ["a", *part[1:]], "other things than lists of integers"),
        ("LUP.pkl", lambda part: part[0], "other things than lists of integers"),
        ("LUP.pkl", lambda part: part[::-1], "do not agree"),
        ("LUP.pkl", lambda part: [part[0], part[0], *part[2:]], "do not agree|a frame twice"),
        ("labels.pkl", lambda part: [0] * len(part), "do not agree"),
        ("labels.pkl", lambda part: [1 - part[0], *part[1:]], "do not agree"),
    ],
)
def test_lists_that_do_not_belong_together(root: Path, tmp_path: Path, name: str, change: Any, message: str) -> None:
    data = load("core50", damage(root, tmp_path, name, changed(released(root, name), 3, 0, change)))
    make_stream("nc", data, seed=2)
    with pytest.raises(DataError, match=message):
        make_stream("nc", data, seed=3)


def test_a_training_list_with_test_frames(root: Path, tmp_path: Path) -> None:
    lookup, labels = released(root, "LUP.pkl"), released(root, "labels.pkl")
    for lists in (lookup["ni"][0], labels["ni"][0]):
        lists[0], lists[-1] = lists[-1], lists[0]
    damage(root, tmp_path, "LUP.pkl", lookup)
    (tmp_path / "core50" / "labels.pkl").write_bytes(pickle.dumps(labels, 2))
    with pytest.raises(DataError, match="mixes training and test sessions"):
        make_stream("ni", load("core50", tmp_path))


def test_a_scenario_that_is_missing(root: Path, tmp_path: Path) -> None:
    lookup = released(root, "LUP.pkl")
    del lookup["nicv2_79"]
    with pytest.raises(DataError, match=r"LUP.pkl lacks run 0 of nicv2_79"):
        make_stream("nicv2_79", load("core50", damage(root, tmp_path, "LUP.pkl", lookup)))


@pytest.mark.skipif(not os.environ.get("EVERBIT_DATA"), reason="EVERBIT_DATA names no folder of real data")
def test_the_real_thing() -> None:
    """Where a folder holds the whole of CORe50: the sizes that its authors give."""
    root = Path(os.environ["EVERBIT_DATA"])
    if not (root / "core50").is_dir():
        pytest.skip(f"no core50 in {root}")
    data = load("core50", root)
    assert len(data.train_labels) + len(data.test_labels) == 164_866
    for scenario, count in (("nc", 9), ("ni", 8), ("nicv2_79", 79), ("nicv2_196", 196), ("nicv2_391", 391)):
        for run in range(10):
            assert len(make_stream(scenario, data, seed=run).train_stream) == count
