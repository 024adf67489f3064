"""Labeled image sets by name, from a folder of yours or from the package; docs/data.md says how to lay them out."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from everbit.data.core50 import read_core50
from everbit.data.dataset import Dataset
from everbit.data.folder_sets import read_folder
from everbit.data.huggingface_sets import read_huggingface
from everbit.data.npz_sets import read_npz
from everbit.data.sources import SOURCES, Source
from everbit.errors import DataError

__all__ = ["SOURCES", "Dataset", "data_folder", "find", "load"]

LAYOUTS: dict[str, Callable[[Path, str, Source], Dataset]] = {
    "npz": read_npz,
    "core50": lambda path, name, source: read_core50(path, name, source.class_count, source.license_note),
}
KINDS: dict[str, Callable[[str], Dataset]] = {
    "folder": lambda path: read_folder(Path(path)),
    "huggingface": read_huggingface,
}
"""What reads a data set that is named KIND:WHERE."""


def load(name: str, root: str | Path | None = None) -> Dataset:
    """Read the data set ``name``: a key of ``SOURCES``, ``folder:PATH`` or ``huggingface:PATH-OR-NAME``.

    ``root`` is the folder that holds the file; without it the environment variable EVERBIT_DATA names the folder, else
    it is ``./data``. ``fashion_demo`` lies in the package and needs none. The path of a folder with an image folder for
    each class needs no ``folder:``. Images stay in the file's order, which is sorted by class for some sets: a stream
    shuffles them. Raises DataError where the name is unknown or the file is missing or damaged.
    """
    if name not in SOURCES:
        kind, colon, where = name.partition(":")
        if colon and kind in KINDS:
            return KINDS[kind](where)
        if os.sep in name and Path(name).is_dir():
            return read_folder(Path(name))
        raise DataError(
            f"unknown data set {name!r}: choose one of {', '.join(SOURCES)}, or give folder:PATH or huggingface:PATH"
        )
    source = SOURCES[name]
    path = _locate(name, root)
    try:
        return LAYOUTS[source.layout](path, name, source)
    except (OSError, KeyError, ValueError, IndexError, EOFError, zlib.error, zipfile.BadZipFile, DataError) as error:
        cure = "install everbit again" if source.packaged else f"copy it again, or make it from {source.url}"
        raise DataError(
            f"{path} cannot be read as the data set {name!r} ({error}): {cure}; docs/data.md describes the file"
        ) from error


def data_folder(root: str | Path | None = None) -> tuple[Path, str]:
    """The folder that holds the data sets, and what named it."""
    variable = os.environ.get("EVERBIT_DATA")
    if root is not None:
        return Path(root), "the root you gave"
    if variable:
        return Path(variable), "from the environment variable EVERBIT_DATA"
    return Path("data"), "the default"


def find(name: str, root: str | Path | None = None) -> Path | None:
    """The file or folder of the data set ``name``, a key of ``SOURCES``; None where there is none."""
    source = SOURCES[name]
    if source.packaged:
        return Path(__file__).with_name(source.file)
    folder, _ = data_folder(root)
    candidates = (folder / file for file in (source.file, *source.other_files))
    return next((path for path in candidates if path.exists()), None)


def _locate(name: str, root: str | Path | None) -> Path:
    """The file of a data set, found to exist."""
    path = find(name, root)
    if path is None:
        from everbit.data.archives.registry import DOWNLOADS

        source = SOURCES[name]
        folder, origin = data_folder(root)
        place = "" if root is None else f" --root {root}"
        download = f"run `everbit data get {name}{place}`, or get" if name in DOWNLOADS else "get"
        raise DataError(
            f"{' or '.join((source.file, *source.other_files))} is not in {folder.absolute()} ({origin}): {download} "
            f"the original data set at {source.url}, store it as docs/data.md describes, and name the folder that "
            "holds it by root (--root on the command line) or by the environment variable EVERBIT_DATA"
        )
    return path
