"""State dicts of PyTorch: `.pth`, `.pth.tar`, `.pt`, `.safetensors`. Nothing but tensors and plain values is read."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import Tensor

from everbit.errors import EverbitError, FormatError, UnsupportedError
from everbit.formats.importers.stored_tensors import StoredTensor, StoredTensors

_NESTED = ("state_dict", "model_state_dict", "model", "net", "network")
"""Names under which training scripts keep the network's state in a larger dict."""

_PARALLEL = "module."
"""What `nn.DataParallel` puts in front of every name."""


def read_checkpoint(path: Path) -> StoredTensors:
    """The tensors of a `.pth` file by name, without the prefix of `nn.DataParallel`.

    Raises FormatError where it is damaged or holds more than tensors and plain values.
    """
    _refuse_compressed(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is refused below
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise FormatError(
            f"{path} is damaged, or holds objects beside tensors, which are never loaded: "
            "save network.state_dict() alone and give that file"
        ) from error
    except Exception as error:  # torch.load raises what its many readers raise
        raise FormatError(f"{path} is damaged ({type(error).__name__}): copy it again") from error
    return _state(path, loaded)


def read_safetensors(path: Path) -> StoredTensors:
    """The tensors of a `.safetensors` file by name. Raises FormatError; UnsupportedError for everbit's own files."""
    try:
        with safe_open(path, framework="pt") as file:
            own = [key for key in file.metadata() or {} if key.startswith("everbit")]
            if own:
                raise UnsupportedError(
                    f"{path} is a file of everbit already: compile a backbone with `everbit compile --weights`"
                )
            return _state(path, {name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
    except EverbitError:
        raise
    except (OSError, SafetensorError, ValueError, TypeError, RuntimeError, KeyError) as error:
        raise FormatError(f"{path} is damaged ({error}): copy it again") from error


def _refuse_compressed(path: Path) -> None:
    """PyTorch stores its archives uncompressed; a compressed one could grow without bound."""
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in archive.infolist())
            size = sum(entry.file_size for entry in archive.infolist())
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise FormatError(f"{path} is damaged ({error}): copy it again") from error
    if not stored or size > path.stat().st_size:
        raise FormatError(f"{path} is a compressed archive, which PyTorch does not write: save the state dict again")


def _state(path: Path, loaded: Any) -> StoredTensors:
    for name in _NESTED:
        if isinstance(loaded, Mapping) and isinstance(loaded.get(name), Mapping):
            loaded = loaded[name]
    if not isinstance(loaded, Mapping) or not loaded:
        raise FormatError(f"{path} holds no state dict: save network.state_dict() and give that file")
    tensors = {}
    for name, value in loaded.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise FormatError(f"{path}: {str(name)[:80]!r} is no tensor: save network.state_dict() and give that file")
        tensors[name.removeprefix(_PARALLEL)] = _stored(path, name, value)
    return StoredTensors(path, tensors)


def _stored(path: Path, name: str, tensor: Tensor) -> StoredTensor:
    plain = tensor.layout == torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized
    # A tensor of few bytes can claim any size by strides of 0.
    if not plain or tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise FormatError(f"{path}: {name} is no plain tensor of its own values: save the state dict again")
    dtype = str(tensor.dtype).removeprefix("torch.").replace("bfloat", "float")

    def read() -> NDArray[np.generic]:
        values: NDArray[np.generic] = tensor.detach().float().numpy()
        return values

    return StoredTensor(tuple(tensor.shape), dtype, read)
