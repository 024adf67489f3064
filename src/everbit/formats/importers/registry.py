"""Recognizes a foreign network file by its content, whatever its name ends in, and imports it."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from everbit.errors import FormatError, UnsupportedError
from everbit.formats.importers.network import ImportedNetwork

_HEAD = 4096 + 8
_HDF5 = b"\x89HDF\r\n\x1a\n"
_HDF5_STARTS = (0, 512, 1024, 2048, 4096)
_PICKLED = pickle.PROTO + b"\x02" + pickle.LONG1 + b"\x0al\xfc\x9cF\xf9 j\xa8P\x19"
"""How PyTorch's files before version 1.6 start: a protocol number, then their magic number."""


def _archive_names(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return []


def _import_tflite(path: Path) -> ImportedNetwork:
    from everbit.formats.importers.tflite.network import load_tflite

    return load_tflite(path)


def _import_keras(path: Path) -> ImportedNetwork:
    from everbit.formats.importers.keras import load_keras, read_keras

    return load_keras(read_keras(path))


def _import_checkpoint(path: Path) -> ImportedNetwork:
    from everbit.formats.importers.checkpoint import read_checkpoint
    from everbit.formats.importers.state_dict import load_state_dict

    return load_state_dict(read_checkpoint(path))


def _import_safetensors(path: Path) -> ImportedNetwork:
    from everbit.formats.importers.checkpoint import read_safetensors
    from everbit.formats.importers.state_dict import load_state_dict

    return load_state_dict(read_safetensors(path))


def _import_npz(path: Path) -> ImportedNetwork:
    from everbit.formats.importers.finn import is_finn, load_finn
    from everbit.formats.importers.npz import read_npz

    tensors = read_npz(path)
    if not is_finn(tensors):
        raise UnsupportedError(
            f"{path} is a NumPy archive, but none of FINN's networks: it lacks W0_bits, W0_shape, T0"
        )
    return load_finn(tensors)


@dataclass(frozen=True)
class FileKind:
    """A kind of file: its name for people, whether a file's first bytes (and names inside) are its, what reads it."""

    name: str
    matches: Callable[[bytes, Path], bool]
    load: Callable[[Path], ImportedNetwork]


KINDS = (
    FileKind("TensorFlow Lite (.tflite)", lambda head, path: head[4:8] == b"TFL3", _import_tflite),
    FileKind(
        "Keras weights (.h5)",
        lambda head, path: any(head[start:].startswith(_HDF5) for start in _HDF5_STARTS),
        _import_keras,
    ),
    FileKind(
        "NumPy archive (.npz)",
        lambda head, path: head.startswith(b"PK") and any(name.endswith(".npy") for name in _archive_names(path)),
        _import_npz,
    ),
    FileKind(
        "PyTorch checkpoint (.pth, .pth.tar)",
        lambda head, path: head.startswith((b"PK", _PICKLED, b"\x80")),
        _import_checkpoint,
    ),
    FileKind("safetensors", lambda head, path: head[8:9] == b"{", _import_safetensors),
)
"""Kinds of files in the order in which they are tried."""


def load_network(path: str | Path) -> ImportedNetwork:
    """The network of a file from another framework, recognized by its content.

    Raises FormatError for a file that is missing, unknown or damaged, and UnsupportedError for a network with a step
    that everbit lacks. Reading files of TensorFlow needs `pip install "everbit[import]"`.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FormatError(f"cannot read {path} ({reason}): give the path of a network's file") from error
    for kind in KINDS:
        if kind.matches(head, path):
            return kind.load(path)
    names = ", ".join(kind.name for kind in KINDS)
    raise FormatError(f"{path} is no network file that can be imported: known are {names}")
