"""CORe50's folder from its zip file of frames and the three files of lists."""

from __future__ import annotations

import os
import re
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path

from everbit.data.core50 import FRAMES, LISTS
from everbit.errors import OutputError

_FRAME = re.compile(rf"{FRAMES}/s\d+/o\d+/[\w.-]+\.png")


def core50_folder(files: Mapping[str, Path], folder: Path) -> None:
    """Unpacks the frames beside the lists; the folder is there whole or not at all.

    Raises OutputError where it cannot be written.
    """
    partial = folder.with_name(f"{folder.name}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        with zipfile.ZipFile(files[f"{FRAMES}.zip"]) as archive:
            for name in filter(_FRAME.fullmatch, archive.namelist()):
                archive.extract(name, partial)
        for name in LISTS:
            shutil.copyfile(files[name], partial / name)
        os.replace(partial, folder)
    except OSError as error:
        raise OutputError(f"cannot write {folder} ({error}): free space, or choose another --root") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
