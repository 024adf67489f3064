"""Tensors of a NumPy archive, nothing of which is read before its size is known."""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from everbit.errors import FormatError
from everbit.formats.importers.stored_tensors import StoredTensor, StoredTensors

_SUFFIX = ".npy"
MOST_BYTES = 2**28  # of one array
_DAMAGE = (OSError, ValueError, EOFError, KeyError, NotImplementedError, RuntimeError, zlib.error, zipfile.BadZipFile)


def read_npz(path: Path) -> StoredTensors:
    """The arrays of an archive by name; nothing is unpickled. Raises FormatError where it is damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(_SUFFIX) for name in archive.namelist() if name.endswith(_SUFFIX)]
            return StoredTensors(path, {name: _stored(path, archive, name) for name in names})
    except _DAMAGE as error:
        raise _damaged(path, error) from error


def _stored(path: Path, archive: zipfile.ZipFile, name: str) -> StoredTensor:
    with archive.open(name + _SUFFIX) as file:
        version = npy.read_magic(file)
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = header(file)
        start = file.tell()
    if dtype.hasobject:
        raise ValueError(f"{name} holds objects")
    size = math.prod(shape) * dtype.itemsize
    if size > MOST_BYTES or start + size != archive.getinfo(name + _SUFFIX).file_size:
        raise ValueError(f"{name} of shape {list(shape)} does not hold what it says")

    def read() -> NDArray[np.generic]:
        try:
            with zipfile.ZipFile(path) as again, again.open(name + _SUFFIX) as file:
                values: NDArray[np.generic] = npy.read_array(file, allow_pickle=False)
                return values
        except _DAMAGE as error:
            raise _damaged(path, error) from error

    return StoredTensor(shape, dtype.name, read)


def _damaged(path: Path, error: Exception) -> FormatError:
    return FormatError(f"{path} is damaged ({error}): copy it again")
