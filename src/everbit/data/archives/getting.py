"""A data set from its official archives to the file or folder that ``everbit.data.datasets.load`` reads."""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from pathlib import Path

from everbit.data.archives.download import Report, fetch
from everbit.data.archives.registry import DOWNLOADS
from everbit.data.datasets import data_folder, find
from everbit.data.sources import SOURCES
from everbit.errors import DataError, EverbitError

UNREADABLE = (OSError, KeyError, ValueError, IndexError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile)
"""What reading an archive of another content raises."""


def get(
    name: str, root: str | Path | None = None, *, mirror: str | None = None, report: Report | None = None
) -> tuple[Path, bool]:
    """The place of the data set ``name``, and whether it had to be made: where it is there, nothing is done.

    root: as of ``load``. The archives are fetched into the folder ``downloads/NAME`` there, or found in it, verified,
    and removed when the data set is made, but for those that were found. mirror, report: as of ``fetch``. Raises
    DataError where the name is unknown, has no archive with a published checksum, or an archive cannot be had.
    """
    if name not in SOURCES:
        raise DataError(f"unknown data set {name!r}: choose one of {', '.join(SOURCES)}")
    if (present := find(name, root)) is not None:
        return present, False
    download = DOWNLOADS[name]
    folder = data_folder(root)[0]
    target, archives = folder / SOURCES[name].file, folder / "downloads" / name
    fetched = [archive for archive in download.archives if fetch(archive, archives, mirror, report)]
    try:
        download.make({archive.file: archives / archive.file for archive in download.archives}, target)
    except EverbitError:
        raise
    except UNREADABLE as error:
        raise DataError(
            f"the archives of {name} in {archives} hold something else than they used to ({error})"
        ) from error
    for archive in fetched:
        (archives / archive.file).unlink()
    if not any(archives.iterdir()):
        archives.rmdir()
    return target, True
