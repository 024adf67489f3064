"""Runs of experiments kept on disk: finished ones, and how far an unfinished one got.

A run is known by a digest of all that decides its numbers; after changing Python code of the learners or the compiler
within a version, start a new folder. `DIGEST.json` is a finished run; of an unfinished one, `DIGEST.partial.json` tells
the experiences done and `DIGEST.N.learner` is the learner after the first N. Every file is written whole or not at all,
the learner before the file that speaks of it, so a kill at any moment loses one experience at most. `DIGEST.lock` is
held while a process works on the run: others wait for its result. The system lets go of it where the process dies.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import everbit
from everbit import _engine
from everbit.errors import FormatError
from everbit.learner.protocol import ContinualLearner
from everbit.whole_file import replacing


@cache
def engine_digest() -> str:
    """Digest of the compiled engine: another one may give other numbers, also within a version."""
    return hashlib.sha256(Path(_engine.__file__).read_bytes()).hexdigest()


@dataclass(frozen=True)
class RunProgress:
    """What is known of an unfinished run after each experience: accuracies on the groups, seconds since it began."""

    accuracy_matrix: list[list[float]]
    seconds_after: list[float]


class RunCache:
    """The files of one run in a folder. identity: all that decides the run's numbers, as JSON."""

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        code = {"version": everbit.__version__, "engine_digest": engine_digest()}
        text = json.dumps({**identity, **code}, sort_keys=True)
        self._folder, self._identity = folder, json.loads(text)
        self._name = hashlib.sha256(text.encode()).hexdigest()[:32]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the run while the block lasts, so that no two processes work on it; waits until it can."""
        path = self._folder / f"{self._name}.lock"
        while True:
            with path.open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not _is_file(lock.fileno(), path):
                    continue  # whoever held it has removed it
                try:
                    yield
                finally:
                    path.unlink()
                return

    def result(self) -> dict[str, Any] | None:
        """The finished run, None where it is not finished."""
        content = _json(self._folder / f"{self._name}.json")
        return None if content is None else content["run"]

    def progress(self) -> tuple[RunProgress, Path] | None:
        """How far the run got and the learner's file, None where it has not finished an experience."""
        content = _json(self._folder / f"{self._name}.partial.json")
        if content is None:
            return None
        progress = RunProgress(**content["progress"])
        return progress, self._learner_file(len(progress.accuracy_matrix))

    def save_progress(self, progress: RunProgress, learner: ContinualLearner) -> None:
        """Keeps an unfinished run after an experience."""
        done = len(progress.accuracy_matrix)
        learner.save(self._learner_file(done))
        self._write(f"{self._name}.partial.json", {"progress": asdict(progress)})
        self._learner_file(done - 1).unlink(missing_ok=True)

    def finish(self, run: dict[str, Any]) -> None:
        """Keeps the finished run and forgets how it came to be."""
        self._write(f"{self._name}.json", {"run": run})
        for path in self._folder.glob(f"{self._name}.*"):
            if path.name not in (f"{self._name}.json", f"{self._name}.lock"):
                path.unlink()

    def _learner_file(self, done: int) -> Path:
        return self._folder / f"{self._name}.{done}.learner"

    def _write(self, name: str, content: dict[str, Any]) -> None:
        with replacing(self._folder / name) as partial:
            partial.write_text(json.dumps({"identity": self._identity, **content}, indent=1), encoding="utf-8")


def _is_file(descriptor: int, path: Path) -> bool:
    """Whether an open file still is the one at the path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _json(path: Path) -> Any:
    """The content of a file, None where there is no such file. Raises FormatError where it is damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} is damaged ({error}): delete it, and the run starts over") from error
