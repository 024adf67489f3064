"""The learner file: one SQLite database that holds a learner whole, its model included.

Table `learner(key TEXT PRIMARY KEY, value BLOB)` with the keys `version`, `model` (an .everbit file), `state` (the
engine's bytes), `settings`, `widths`, `replay_slots`, `labels` (JSON) and `sha256` of all others. Written beside the
old file and put in its place at once, so that a power cut leaves one or the other.
"""

from __future__ import annotations

import errno
import hashlib
import json
import sqlite3
from collections.abc import Hashable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from everbit.errors import FormatError
from everbit.formats.labels import label_from_json, label_to_json
from everbit.whole_file import replacing

VERSION = 1


@dataclass(frozen=True)
class LearnerContent:
    """What a learner file holds."""

    model: bytes
    state: bytes
    settings: dict[str, Any]
    widths: str
    replay_slots: int
    labels: list[Hashable]


def write_learner_file(path: Path, content: LearnerContent) -> None:
    """Writes the file whole or not at all.

    Raises OutputError where the path cannot be written, LabelError for labels that are not text, numbers or tuples of
    them.
    """
    rows = {
        "version": str(VERSION).encode(),
        "model": content.model,
        "state": content.state,
        "settings": json.dumps(content.settings).encode(),
        "widths": content.widths.encode(),
        "replay_slots": str(content.replay_slots).encode(),
        "labels": json.dumps([label_to_json(label) for label in content.labels]).encode(),
    }
    rows["sha256"] = _digest(rows)
    with replacing(path) as partial:
        partial.unlink(missing_ok=True)
        try:
            with closing(sqlite3.connect(partial)) as database, database:
                database.execute("CREATE TABLE learner (key TEXT PRIMARY KEY, value BLOB NOT NULL)")
                database.executemany("INSERT INTO learner VALUES (?, ?)", rows.items())
        except sqlite3.Error as error:
            raise OSError(errno.ENOSPC if "full" in str(error) else errno.EIO, str(error)) from error


def read_learner_file(path: Path) -> LearnerContent:
    """Reads a file that `write_learner_file` wrote.

    Raises FormatError where it is missing, foreign, damaged or newer.
    """
    if not path.is_file():
        raise FormatError(f"there is no learner file {path}: give the path of a file that Learner.save wrote")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            rows: dict[str, bytes] = dict(database.execute("SELECT key, value FROM learner"))
        version = int(rows["version"])
        if version > VERSION:
            raise FormatError(
                f"{path} has format version {version}, this everbit reads up to {VERSION}: update everbit"
            )
        if version < 1 or rows.pop("sha256") != _digest(rows):
            raise ValueError("its checksum does not fit")
        return LearnerContent(
            model=rows["model"],
            state=rows["state"],
            settings=json.loads(rows["settings"]),
            widths=rows["widths"].decode(),
            replay_slots=int(rows["replay_slots"]),
            labels=[label_from_json(label) for label in json.loads(rows["labels"])],
        )
    except (sqlite3.Error, KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{path} is damaged or no learner file ({error}): use an earlier copy of it") from error


def _digest(rows: Mapping[str, bytes]) -> bytes:
    """SHA-256 of the rows: a damaged file is refused, not learned on."""
    digest = hashlib.sha256()
    for key in sorted(rows):
        digest.update(f"{key} {len(rows[key])}\n".encode())
        digest.update(rows[key])
    return digest.hexdigest().encode()
