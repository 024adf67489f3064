"""What the layers of a float network are made of: a program's constants and parameters as real numbers."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from everbit.compile.program import Layer
from everbit.compile.program import Parameter as ProgramParameter
from everbit.compile.program import Tensor as ProgramTensor

ProgramTensors = tuple[ProgramTensor, ...]


class LayerBuilder(Protocol):
    """How a module is made: from its layer, the tensors it reads and the tensor it writes."""

    def __call__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> nn.Module: ...


def real_values(parameter: ProgramParameter) -> NDArray[np.float64]:
    return parameter.values.astype(np.float64) * 2.0 ** (parameter.range_exponent - 31)


def by_channel(values: ArrayLike) -> Tensor:
    """float32 [C, 1, 1], to meet activations [N, C, H, W]."""
    return torch.from_numpy(np.asarray(values, np.float64)).float().reshape(-1, 1, 1)


def parameters_of(layer: Layer) -> nn.ParameterDict:
    """The layer's parameters by channel, those it has."""
    return nn.ParameterDict({name: nn.Parameter(by_channel(real_values(p))) for name, p in layer.parameters.items()})


class Constants(nn.Module):
    """A module whose constants are buffers that no state holds: the program has them."""

    def constant(self, name: str, value: Tensor | None) -> None:
        self.register_buffer(name, value, persistent=False)
