"""The file of a learner that is not the engine's: one safetensors file, its metadata entry a JSON text of facts.

`kind` tells what wrote it, so that no learner takes another's file for its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from everbit.errors import FormatError
from everbit.whole_file import replacing

METADATA_KEY = "everbit-baseline"
VERSION = 1

Tensors = dict[str, NDArray[Any]]


def write_tensor_file(path: Path, kind: str, facts: dict[str, Any], tensors: Tensors) -> None:
    """Writes the file whole or not at all. Raises OutputError where the path cannot be written."""
    text = json.dumps({"version": VERSION, "kind": kind, **facts})
    content = safetensors.numpy.save(
        {name: np.ascontiguousarray(array) for name, array in tensors.items()}, {METADATA_KEY: text}
    )
    with replacing(path) as partial:
        partial.write_bytes(content)


def read_tensor_file(path: Path, kind: str) -> tuple[dict[str, Any], Tensors]:
    """The facts and tensors of a file that `write_tensor_file` wrote. Raises FormatError where it is no such file."""
    try:
        with safe_open(path, framework="numpy") as file:
            facts = json.loads((file.metadata() or {})[METADATA_KEY])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if facts["version"] > VERSION:
            raise FormatError(
                f"{path} has format version {facts['version']}, this everbit reads up to {VERSION}: update everbit"
            )
        if facts["kind"] != kind:
            raise ValueError(f"it holds a {facts['kind']} learner")
    except FormatError:
        raise
    except (OSError, SafetensorError, LookupError, TypeError, ValueError) as error:
        raise FormatError(
            f"{path} cannot be read as a {kind} learner ({error}): give a file that such a learner's save wrote"
        ) from error
    return facts, tensors


def require_tensor(tensors: Tensors, name: str, dtype: type[np.generic], shape: tuple[int | None, ...]) -> NDArray[Any]:
    """One tensor of a file; None in the shape: any size. Raises ValueError where it is not as it must be."""
    found = tensors[name]
    fits = found.ndim == len(shape) and all(size in (None, has) for size, has in zip(shape, found.shape, strict=True))
    if found.dtype != dtype or not fits:
        raise ValueError(f"{name} is {found.dtype} {list(found.shape)}")
    return found
