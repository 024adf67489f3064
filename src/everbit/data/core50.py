"""CORe50 as its authors released it: a folder of frames, and pickled lists of the frames of each experience.

``core50_128x128/sX/oY/C_XX_YY_ZZZ.png`` is frame ZZZ of object Y (1 to 50) in session X (1 to 11); ``paths.pkl`` lists
all frames, relative to that folder. ``LUP.pkl`` holds, for each scenario, ten runs of lists of positions in
``paths.pkl``: one an experience, the test set last. ``labels.pkl`` holds labels in the same shape. Those number the
objects anew in every run of NC, so here a class number is always the object's own, Y - 1, and the released labels only
prove that the lists belong to these frames.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everbit.data.dataset import Dataset, PublishedStream
from everbit.data.lazy_images import FileReader, LazyImages
from everbit.data.plain_pickle import read_plain_pickle
from everbit.errors import ConfigurationError, DataError

FRAMES = "core50_128x128"
SHAPE = (128, 128, 3)
LISTS = ("paths.pkl", "LUP.pkl", "labels.pkl")
TEST_SESSIONS = (3, 7, 10)
OBJECTS = 50
RUNS = 10
SCENARIOS = ("nc", "ni", "nicv2_79", "nicv2_196", "nicv2_391")
CATEGORIES = (
    "plug_adapter",
    "mobile_phone",
    "scissor",
    "light_bulb",
    "can",
    "glass",
    "ball",
    "marker",
    "cup",
    "remote_control",
)
"""Of five objects each, in the order of their numbers."""
CLASS_NAMES = {
    50: tuple(f"{category}{number}" for category in CATEGORIES for number in range(1, 6)),
    10: CATEGORIES,
}
"""Names of the classes by their number: every object a class, or every category."""

_PATH = re.compile(r"s(\d{1,2})/o(\d{1,2})/[\w.-]+\.png")


@dataclass(frozen=True, eq=False)
class ReleasedLists:
    """The streams of the released lists.

    training, test: positions in ``paths.pkl`` of the data set's images, ascending. objects: number 0..49 of each frame
    in ``paths.pkl``. lookup, labels: as released. scenarios: those that the data set's classes allow.
    """

    training: NDArray[np.int64]
    test: NDArray[np.int64]
    objects: NDArray[np.int64]
    lookup: dict[str, Any]
    labels: dict[str, Any]
    scenarios: tuple[str, ...]

    def stream(self, scenario: str, run: int) -> PublishedStream:
        """A run 0..9 of a scenario.

        Raises ConfigurationError for another run, DataError where its lists do not belong to these frames.
        """
        if not 0 <= run < RUNS:
            raise ConfigurationError(
                f"{scenario} of CORe50 was published with runs 0 to {RUNS - 1}, run {run} is none: choose fewer seeds"
            )
        place = f"{scenario}, run {run} of LUP.pkl"
        lists = [_integers(part, place) for part in _run_of(self.lookup, scenario, run, "LUP.pkl")]
        labels = [_integers(part, place) for part in _run_of(self.labels, scenario, run, "labels.pkl")]
        self._check_labels(lists, labels, place)
        *experiences, test = lists
        seen = np.concatenate(experiences)
        if len(np.unique(seen)) != len(seen) or not len(test) or any(not len(part) for part in experiences):
            raise DataError(f"CORe50: {place} has an empty list, or a frame twice: get it again from its authors")
        return PublishedStream(
            tuple(_positions(part, self.training, place) for part in experiences),
            np.sort(_positions(test, self.test, place)),
        )

    def _check_labels(self, lists: list[NDArray[np.int64]], labels: list[NDArray[np.int64]], place: str) -> None:
        """Raises DataError unless each released label stands for one object, and each object has one."""
        frames, numbers = np.concatenate(lists), np.concatenate(labels)
        sound = [len(part) for part in lists] == [len(part) for part in labels]
        if sound and len(frames):
            sound = frames.min() >= 0 and frames.max() < len(self.objects)
        if sound:
            pairs = np.unique(np.stack([self.objects[frames], numbers]), axis=1)
            sound = all(len(np.unique(side)) == pairs.shape[1] for side in pairs)
        if not sound:
            raise DataError(
                f"CORe50: {place} and labels.pkl do not agree with the objects in paths.pkl: get all three again from "
                "their authors, of one version"
            )


def read_core50(folder: Path, name: str, class_count: int, license_note: str) -> Dataset:
    """CORe50 from a folder with the released files, its images read when they are asked for.

    class_count: 50 makes every object a class, 10 every category. ``train_group`` is the session. Raises DataError
    where a file is missing or damaged.
    """
    if not (folder / FRAMES).is_dir():
        raise DataError(f"{folder} has no folder {FRAMES}: unpack {FRAMES}.zip there")
    paths = _listed(read_plain_pickle(folder / "paths.pkl"))
    found = [_PATH.fullmatch(path) if isinstance(path, str) else None for path in paths]
    numbers = [(int(match[1]), int(match[2]) - 1) for match in found if match is not None]
    if len(numbers) != len(found) or not found or not all(0 <= number < OBJECTS for _, number in numbers):
        raise DataError(f"{folder / 'paths.pkl'} is no list of frames s1/o1/C_01_01_000.png: get it from its authors")
    session, objects = np.array(numbers, np.int64).T
    held_out = np.isin(session, TEST_SESSIONS)
    training, test = np.flatnonzero(~held_out), np.flatnonzero(held_out)
    labels = objects // (OBJECTS // class_count)
    reader = FileReader(folder / FRAMES, paths)
    lookup, released = (_dictionary(folder / file) for file in ("LUP.pkl", "labels.pkl"))
    # A category has objects in several experiences of the released NC, which then brings no new classes.
    allowed = SCENARIOS if class_count == OBJECTS else tuple(name for name in SCENARIOS if name != "nc")
    return Dataset(
        name=name,
        train_images=LazyImages(reader, training, SHAPE),
        train_labels=labels[training],
        test_images=LazyImages(reader, test, SHAPE),
        test_labels=labels[test],
        class_names=CLASS_NAMES[class_count],
        train_group=session[training],
        license_note=license_note,
        pad_crop_flip=False,
        published=ReleasedLists(training, test, objects, lookup, released, allowed),
    )


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _dictionary(path: Path) -> dict[str, Any]:
    value = read_plain_pickle(path)
    if not isinstance(value, dict):
        raise DataError(f"{path} holds no scenarios: get it again from its authors")
    return value


def _run_of(scenarios: dict[str, Any], scenario: str, run: int, file: str) -> list[Any]:
    """The lists of one run, the test set's last."""
    try:
        lists = scenarios[scenario][run]
    except (KeyError, IndexError, TypeError):
        lists = None
    if len(found := _listed(lists)) < 2:
        raise DataError(f"CORe50: {file} lacks run {run} of {scenario}: get it again from its authors")
    return found


def _integers(values: Any, place: str) -> NDArray[np.int64]:
    if not isinstance(values, (list, tuple)) or not all(type(value) is int for value in values):
        raise DataError(f"CORe50: {place} holds other things than lists of integers: get it again from its authors")
    try:
        return np.array(values, np.int64)
    except OverflowError:
        raise DataError(f"CORe50: {place} holds integers out of range: get it again from its authors") from None


def _positions(frames: NDArray[np.int64], known: NDArray[np.int64], place: str) -> NDArray[np.int64]:
    """Where each frame stands among the known ones, ascending. Raises DataError for one that is not there."""
    found = np.searchsorted(known, frames)
    if (found == len(known)).any() or (known[np.minimum(found, len(known) - 1)] != frames).any():
        raise DataError(
            f"CORe50: {place} mixes training and test sessions (sessions {TEST_SESSIONS} are the test set): "
            "get it again from its authors"
        )
    return found.astype(np.int64)
