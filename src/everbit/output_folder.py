"""The folder a command writes to, found to be writable before any work starts."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from everbit.errors import OutputError


def writable_folder(folder: Path, files: Iterable[str]) -> Path:
    """Makes the folder where it is missing. Raises OutputError where one of the files could not be written in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OutputError(f"cannot write to the folder {folder} ({error.strerror}): choose another") from error
    for name in files:
        if (folder / name).is_dir():
            raise OutputError(f"{folder / name} is a folder, and a file of that name is to be written: move it away")
    return folder
