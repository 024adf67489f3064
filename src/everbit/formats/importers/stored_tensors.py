"""Tensors of a foreign file by name, each taken once by the network that is built from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from everbit.errors import FormatError

Floats = NDArray[np.float32]

_STATISTICS = ("running_mean", "running_var", "moving_mean", "moving_variance")
"""Ends of the names of batch norms' statistics, in PyTorch and Keras."""


@dataclass(frozen=True)
class StoredTensor:
    """One tensor that has not been read: its shape, its dtype as NumPy names it, and what reads its values."""

    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], NDArray[np.generic]]


class StoredTensors:
    """The tensors of a file; `path` names it in errors. Nothing is read before its shape is known to be right."""

    def __init__(self, path: Path, tensors: Mapping[str, StoredTensor]) -> None:
        self.path, self.tensors = path, dict(tensors)
        self.left = set(self.tensors)

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor. Raises FormatError where there is none of that name."""
        return self._find(name).shape

    def take(self, name: str, *shapes: tuple[int, ...]) -> Floats:
        """Values of a tensor that has one of these shapes, finite float32, in the first of them. Raises FormatError."""
        found = self._find(name)
        if found.shape not in shapes:
            raise FormatError(
                f"{self.path}: {name} has the shape {list(found.shape)} where {list(shapes[0])} fits the rest: "
                "it is of another network, or damaged"
            )
        if not found.dtype.startswith("float"):
            raise FormatError(f"{self.path}: {name} holds {found.dtype}, not real numbers: save it as float32")
        values: Floats = np.ascontiguousarray(found.read()).astype(np.float32).reshape(shapes[0])
        if not np.isfinite(values).all():
            raise FormatError(f"{self.path}: {name} holds values that are not finite: the network was not trained")
        self.left.discard(name)
        return values

    def skip(self, *endings: str) -> None:
        """Leaves tensors whose names end so unread."""
        self.left -= {name for name in self.left if name.endswith(endings)}

    def finish(self) -> None:
        """Raises FormatError where tensors are left that nothing took."""
        if self.left:
            names = ", ".join(sorted(self.left)[:5])
            raise FormatError(
                f"{self.path} holds {len(self.left)} tensors that its network has no place for, such as {names}: "
                "it is of a changed network"
            )

    def _find(self, name: str) -> StoredTensor:
        if name in self.tensors:
            return self.tensors[name]
        if name.endswith(_STATISTICS) or name.removesuffix(":0").endswith(_STATISTICS):
            raise FormatError(
                f"{self.path} lacks {name}: statistics of batch norms are missing; save the network's whole state, "
                "buffers too, after it was trained"
            )
        raise FormatError(f"{self.path} lacks {name}: it is of another network, or damaged")


@torch.no_grad()
def fill(tensor: Tensor, values: Floats) -> None:
    """Puts values into a parameter or buffer of the same number of elements."""
    tensor.copy_(torch.from_numpy(values.reshape(tensor.shape)))
