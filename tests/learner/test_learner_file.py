"""The learner file: whole or not at all, and refused with a reason where it is anything but what `save` wrote."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from everbit.errors import FormatError, LabelError, OutputError
from everbit.formats.model_file import program_bytes
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings
from reference.random_program import random_images, random_program

PROGRAM = random_program(np.random.default_rng(4), q_f=8, latent_bits=2, channels=5, height=5, width=4, blocks=1)

Rows = dict[str, bytes]


@pytest.fixture(scope="module")
def learner() -> Learner:
    images = random_images(np.random.default_rng(0), PROGRAM, 4)
    return Learner(PROGRAM, Settings(classes=4, replay_per_class=2)).partial_fit(images, ["a", "b", "a", ("c", 1)])


@pytest.fixture
def path(learner: Learner, tmp_path: Path) -> Path:
    learner.save(tmp_path / "a.learner")
    return tmp_path / "a.learner"


def rows_of(path: Path) -> Rows:
    with closing(sqlite3.connect(path)) as database:
        return dict(database.execute("SELECT key, value FROM learner"))


def write_rows(path: Path, rows: Rows, signed: bool = True) -> None:
    """A learner file of given rows, with the digest that goes with them."""
    if signed:
        rows = {key: value for key, value in rows.items() if key != "sha256"}
        digest = hashlib.sha256()
        for key in sorted(rows):
            digest.update(f"{key} {len(rows[key])}\n".encode() + rows[key])
        rows["sha256"] = digest.hexdigest().encode()
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE learner (key TEXT PRIMARY KEY, value BLOB NOT NULL)")
        database.executemany("INSERT INTO learner VALUES (?, ?)", rows.items())


def test_saving_leaves_one_file(path: Path, learner: Learner) -> None:
    learner.save(path)
    learner.save(str(path.with_name("b.learner")))
    assert sorted(file.name for file in path.parent.iterdir()) == ["a.learner", "b.learner"]
    assert path.read_bytes() == path.with_name("b.learner").read_bytes()


def test_a_rewritten_file_is_read(path: Path, learner: Learner) -> None:
    """What the tests below change is all that is wrong with their files."""
    write_rows(path, rows_of(path))
    assert Learner.load(path).state == learner.state


@pytest.mark.parametrize("name", ["missing.learner", "", "missing/folder/a.learner"])
def test_a_missing_file(name: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"no learner file.*give the path"):
        Learner.load(tmp_path / name)


def test_an_unwritable_path(learner: Learner, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "folder").mkdir()
    for target in (tmp_path / "file" / "a.learner", tmp_path / "folder"):
        with pytest.raises(OutputError, match=r"cannot write .*choose another path"):
            learner.save(target)
    with pytest.raises(OutputError):
        learner.save("")
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "not a folder"


def test_a_label_that_cannot_be_saved_leaves_the_old_file(path: Path, tmp_path: Path) -> None:
    learner = Learner.load(path)
    before = path.read_bytes()
    learner.partial_fit(random_images(np.random.default_rng(1), PROGRAM, 1), [date(2024, 2, 29)])
    with pytest.raises(LabelError, match=r"datetime.date\(2024, 2, 29\).*use text, numbers or tuples"):
        learner.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", [b"", b"x", b"SQLite format 3\0", b"\0" * 4096, b"EVERBIT\0" * 100])
def test_a_foreign_file(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.learner").write_bytes(content)
    with pytest.raises(FormatError, match=r"damaged or no learner file.*earlier copy"):
        Learner.load(tmp_path / "a.learner")


def test_a_model_is_no_learner(tmp_path: Path) -> None:
    (tmp_path / "a.learner").write_bytes(program_bytes(PROGRAM))
    with pytest.raises(FormatError, match="no learner file"):
        Learner.load(tmp_path / "a.learner")


def test_another_database(tmp_path: Path) -> None:
    for script in (
        "CREATE TABLE other (key TEXT)",
        "CREATE TABLE learner (name TEXT)",
        "CREATE TABLE learner (key TEXT, value BLOB)",
        "CREATE TABLE learner (key TEXT, value BLOB); INSERT INTO learner VALUES ('version', NULL), ('model', 3)",
    ):
        (tmp_path / "a.learner").unlink(missing_ok=True)
        with closing(sqlite3.connect(tmp_path / "a.learner")) as database, database:
            database.executescript(script)
        with pytest.raises(FormatError, match="damaged or no learner file"):
            Learner.load(tmp_path / "a.learner")


def test_every_truncation(path: Path) -> None:
    content = path.read_bytes()
    for length in [*range(0, len(content), 509), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(FormatError):
            Learner.load(path)


def test_flipped_bits(path: Path, learner: Learner) -> None:
    """A flip is refused, or lies in bytes that mean nothing."""
    content = bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(150):
        at, bit = int(rng.integers(len(content))), 1 << int(rng.integers(8))
        content[at] ^= bit
        path.write_bytes(content)
        content[at] ^= bit
        try:
            loaded = Learner.load(path)
        except FormatError:
            refused += 1
        else:
            assert (loaded.state, loaded.classes_, loaded.settings) == (
                learner.state,
                learner.classes_,
                learner.settings,
            )
    assert refused > 30  # a database has empty places


@pytest.mark.parametrize("key", ["model", "state", "settings", "widths", "labels", "replay_slots", "version"])
def test_a_flip_in_every_row(key: str, path: Path) -> None:
    rows = rows_of(path)
    middle = len(rows[key]) // 2
    flipped = rows[key][:middle] + bytes([rows[key][middle] ^ 2]) + rows[key][middle + 1 :]
    write_rows(path, rows | {key: flipped}, signed=False)
    with pytest.raises(FormatError):
        Learner.load(path)


@pytest.mark.parametrize("key", ["model", "state", "settings", "widths", "labels", "replay_slots", "version", "sha256"])
def test_a_missing_row(key: str, path: Path) -> None:
    rows = rows_of(path)
    del rows[key]
    write_rows(path, rows, signed=key != "sha256")
    with pytest.raises(FormatError, match="damaged"):
        Learner.load(path)


def replaced(old: str, new: str) -> Callable[[bytes], bytes]:
    def change(value: bytes) -> bytes:
        text = value.decode()
        assert old in text
        return text.replace(old, new).encode()

    return change


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        ("version", lambda _: b"2", "version 2, this everbit reads up to 1: update everbit"),
        ("version", lambda _: b"0", "damaged"),
        ("version", lambda _: b"one", "damaged"),
        ("state", lambda state: state[:-1], "another program or other options"),
        ("state", lambda state: state + b"\0", "another program or other options"),
        ("state", lambda state: b"", "another program or other options"),
        ("settings", replaced('"classes": 4', '"classes": 40'), "another program or other options"),
        ("settings", replaced('"classes": 4', '"classes": 4.5'), "classes is 4.5"),
        ("settings", replaced('"classes"', '"klasses"'), "damaged"),
        ("settings", replaced('"lr"', '"rl"'), "unknown strategy"),
        ("settings", lambda _: b"[]", "damaged"),
        ("settings", lambda _: b"[" * 100_000, "damaged"),
        ("widths", replaced("8,16,16,2", "8,16,16,4"), "do not fit the model"),
        ("widths", lambda _: b"\xff", "damaged"),
        ("replay_slots", lambda _: b"7", "another program or other options"),
        ("replay_slots", lambda _: b"-1", "replay_slots is -1"),
        ("replay_slots", lambda _: str(2**31).encode(), "replay_slots is 2147483648"),
        ("labels", lambda _: b'["a", "b"]', "labels are not those"),
        ("labels", lambda _: b'["a", "b", "a"]', "labels are not those"),
        ("labels", lambda _: b'["a", "b", "c", "d"]', "labels are not those"),
        ("labels", lambda _: b'["a", "b", ["c"]]', "damaged"),
        ("labels", lambda _: b'["a", "b", {"set": []}]', "damaged"),
        ("labels", lambda _: b'{"a": 1}', "damaged|labels are not those"),
        ("labels", lambda _: json.dumps(list(range(5))).encode(), "5 classes are too many"),
        ("model", lambda model: model[:-1], "damaged or no model file"),
        ("model", lambda _: b"", "damaged or no model file"),
    ],
)
def test_rows_that_do_not_fit(key: str, change: Callable[[bytes], bytes], message: str, path: Path) -> None:
    """Files with a sound checksum, as only a program can write them."""
    rows = rows_of(path)
    write_rows(path, rows | {key: change(rows[key])})
    with pytest.raises(FormatError, match=message):
        Learner.load(path)


def test_a_value_of_another_type(path: Path) -> None:
    rows = rows_of(path)
    for value in (None, 5, "text"):
        write_rows(path, rows)
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("CREATE TABLE loose (key TEXT, value)")
            database.execute("INSERT INTO loose SELECT key, value FROM learner WHERE key != 'model'")
            database.execute("INSERT INTO loose VALUES ('model', ?)", (value,))
            database.executescript("DROP TABLE learner; ALTER TABLE loose RENAME TO learner")
        with pytest.raises(FormatError, match="damaged"):
            Learner.load(path)


def test_states_the_engine_never_wrote(path: Path) -> None:
    """Labels and counters of the replay memory at every value: refused, or safe to go on with."""
    rows = rows_of(path)
    images = random_images(np.random.default_rng(1), PROGRAM, 6)
    rng = np.random.default_rng(2)
    outcomes = {"refused": 0, "learned": 0}
    for trial in range(300):
        state = bytearray(rows["state"])
        for _ in range(int(rng.integers(1, 4))):
            # The replay memory's labels and counters are the last 128 bytes; the rest is weights and patterns.
            at = len(state) - 1 - int(rng.integers(128)) if trial % 2 else int(rng.integers(len(state)))
            state[at] = int(rng.choice([0, 1, 2, 3, 127, 128, 254, 255]))
        write_rows(path, rows | {"state": bytes(state)})
        try:
            loaded = Learner.load(path)
        except FormatError:
            outcomes["refused"] += 1
            continue
        loaded.partial_fit(images, ["a", "b", ("c", 1), "d", "d", "a"], epochs=1)
        loaded.partial_fit(images, ["d", "d", ("c", 1), "d", "d", "b"], epochs=1)
        outcomes["learned"] += 1
    assert min(outcomes.values()) > 20, outcomes


@pytest.mark.parametrize(
    ("labels", "seen", "message"),
    [
        ([0, 9, 0xFFFF], [1, 0, 0, 0], "class beyond"),
        ([0xFFFF, 0], [1, 0, 0, 0], "hole"),
        ([0, 1], [1, 0, 0, 0], "too many patterns"),
        ([0, 0, 0], [9, 1, 1, 1], "too many patterns"),
    ],
)
def test_impossible_replay_memories(labels: list[int], seen: list[int], message: str, path: Path) -> None:
    rows = rows_of(path)
    state = bytearray(rows["state"])
    assert Learner.load(path).memory_use["replay"] > 0
    state[-128:-64] = np.array(labels + [0xFFFF] * (8 - len(labels)), "<u2").tobytes().ljust(64, b"\0")
    state[-64:] = np.array(seen, "<u4").tobytes().ljust(64, b"\0")
    write_rows(path, rows | {"state": bytes(state)})
    with pytest.raises(FormatError, match=message):
        Learner.load(path)
