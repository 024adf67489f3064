"""The learner file: one SQLite database that holds a learner whole, its model included.

Table `learner(key TEXT PRIMARY KEY, value BLOB)` with the keys `version`, `model` (an .everbit file), `state` (the engine's bytes),
`settings`, `widths` and `labels` (JSON). Written beside the old file and put in its place at once, so that a power cut leaves one or
the other.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from everbit.errors import FormatError
from everbit.learner.labels import label_from_json, label_to_json
from everbit.whole_file import replacing

VERSION = 1


@dataclass(frozen=True)
class LearnerContent:
    """What a learner file holds."""

    model: bytes
    state: bytes
    settings: dict[str, Any]
    widths: str
    labels: list[Hashable]


def write_learner_file(path: Path, content: LearnerContent) -> None:
    """Writes the file whole or not at all.

    Raises OutputError where the path cannot be written, LabelError for labels that are not text, numbers or tuples of them.
    """
    rows = {
        "version": str(VERSION).encode(),
        "model": content.model,
        "state": content.state,
        "settings": json.dumps(content.settings).encode(),
        "widths": content.widths.encode(),
        "labels": json.dumps([label_to_json(label) for label in content.labels]).encode(),
    }
    with replacing(path) as partial:
        partial.unlink(missing_ok=True)
        try:
            database = sqlite3.connect(partial)
            with database:
                database.execute("CREATE TABLE learner (key TEXT PRIMARY KEY, value BLOB NOT NULL)")
                database.executemany("INSERT INTO learner VALUES (?, ?)", rows.items())
            database.close()
        except sqlite3.Error as error:
            raise OSError(str(error)) from error


def read_learner_file(path: Path) -> LearnerContent:
    """Reads a file that `write_learner_file` wrote. Raises FormatError where it is missing, foreign, damaged or newer."""
    if not path.is_file():
        raise FormatError(f"there is no learner file {path}: give the path of a file that Learner.save wrote")
    try:
        database = sqlite3.connect(f"file:{path.resolve().as_posix()}?mode=ro", uri=True)
        try:
            rows: dict[str, bytes] = dict(database.execute("SELECT key, value FROM learner"))
        finally:
            database.close()
        version = int(rows["version"])
        if version > VERSION:
            raise FormatError(f"{path} has format version {version}, this everbit reads up to {VERSION}: update everbit")
        return LearnerContent(
            model=rows["model"],
            state=rows["state"],
            settings=json.loads(rows["settings"]),
            widths=rows["widths"].decode(),
            labels=[label_from_json(label) for label in json.loads(rows["labels"])],
        )
    except (sqlite3.Error, KeyError, ValueError, TypeError, AttributeError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{path} is damaged or no learner file ({error}): use an earlier copy of it") from error
