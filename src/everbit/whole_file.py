"""Writing a file whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from everbit.errors import OutputError

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a disk without room."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; it takes the place of `path` at the end, on disk, unless an error comes first.

    Raises OutputError where the folder or the file cannot be written.
    """
    if not path.name:
        raise OutputError(f"cannot write {str(path)!r}: give the name of a file")
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield partial
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        advice = "free space, or choose another path" if error.errno in FULL else "choose another path"
        raise OutputError(f"cannot write {path} ({error.strerror or error}): {advice}") from error
