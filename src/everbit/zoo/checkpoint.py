"""Files of an unfinished pretraining."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch

from everbit.errors import FormatError, OutputError
from everbit.whole_file import replacing

VERSION = 1
_KEYS = {"model", "optimizer", "schedule", "position", "recipe", "description"}


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a state of _KEYS (tensors, numbers, strings, lists, dicts) to `path`, whole or not at all."""
    try:
        with replacing(path) as partial:
            torch.save({"version": VERSION, **state}, partial)
    except RuntimeError as error:  # how torch.save reports a file it cannot open or a full disk
        raise OutputError(f"cannot write {path} ({error}): free space, or choose another path") from error


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read what save_checkpoint wrote; nothing is unpickled but tensors and plain values. Raises FormatError."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, KeyError, ValueError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise FormatError(f"{path} is damaged or is no checkpoint of a pretraining: delete it to start anew") from error
    if not isinstance(state, dict) or state.get("version") != VERSION or not state.keys() >= _KEYS:
        raise FormatError(f"{path} is no checkpoint of this version of everbit: delete it to start anew")
    return state
