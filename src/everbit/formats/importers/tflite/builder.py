"""Builds the PyTorch graph while the operators of a file are read in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import fx, nn

from everbit.errors import EverbitError, FormatError, UnsupportedError
from everbit.formats.importers.tflite.file import MOST_ELEMENTS, FileTensor, LiteFile, Operator
from everbit.formats.importers.tflite.values import Layout, Value

Floats = NDArray[np.float32]

_ACTIVATIONS: dict[int, tuple[str, Callable[[], nn.Module] | None]] = {
    0: ("", None),
    1: ("relu", nn.ReLU),
    2: ("hardtanh", nn.Hardtanh),
    3: ("relu6", nn.ReLU6),
}
"""Fused activations by their number in the file: the end of the module's name, and the module."""


class GraphBuilder:
    """The network so far. Modules are named after the step they come from, such as `conv_17` for operator 17.

    values: by tensor index, what the graph has made. constants: dequantized ones. norms: batch norms that stand for a
    multiplier and a bias of the file, whose statistics it no longer holds.
    """

    def __init__(self, path: Path, file: LiteFile) -> None:
        self.path, self.file = path, file
        self.root, self.graph = nn.Module(), fx.Graph()
        self.values: dict[int, Value] = {}
        self.constants: dict[int, NDArray[np.generic]] = {}
        self.norms: dict[fx.Node, nn.BatchNorm1d | nn.BatchNorm2d] = {}
        self.readers: Counter[int] = Counter(index for op in file.operators for index in op.inputs)
        self.readers.update(file.outputs)

    # --- errors -------------------------------------------------------------------------------------------------------

    def _place(self, operator: Operator) -> str:
        made = self.file.tensors[operator.outputs[0]].name if operator.outputs else "nothing"
        return f"{self.path}: operator {operator.index} ({operator.kind}, which makes {made!r})"

    def unsupported(self, operator: Operator, why: str) -> EverbitError:
        """An error that names the step: everbit has no such thing."""
        return UnsupportedError(f"{self._place(operator)} {why}; docs/import.md lists what can be imported")

    def damaged(self, operator: Operator, why: str) -> EverbitError:
        """An error that names the step: the file contradicts itself."""
        return FormatError(f"{self._place(operator)} {why}: convert the network again")

    # --- what a step reads --------------------------------------------------------------------------------------------

    def has(self, operator: Operator, position: int) -> bool:
        """Whether an optional input is there."""
        return len(operator.inputs) > position and operator.inputs[position] >= 0

    def tensor(self, operator: Operator, position: int) -> FileTensor:
        """The tensor of an input in the file."""
        if not self.has(operator, position):
            raise self.damaged(operator, f"has no input {position}")
        return self.file.tensors[operator.inputs[position]]

    def is_constant(self, operator: Operator, position: int) -> bool:
        """Whether an input is a constant of the file."""
        tensor = self.tensor(operator, position)
        return tensor.data is not None or tensor.index in self.constants

    def value(self, operator: Operator, position: int = 0) -> Value:
        """An activation: real values or signs."""
        tensor = self.tensor(operator, position)
        if tensor.index not in self.values:
            if self.is_constant(operator, position):
                raise self.unsupported(operator, f"reads the constant {tensor.name!r} as its input {position}")
            raise self.damaged(operator, f"reads {tensor.name!r}, which no operator before it makes (a cycle?)")
        return self.values[tensor.index]

    def real(self, operator: Operator, position: int = 0) -> Value:
        """An activation of real values."""
        value = self.value(operator, position)
        if value.real is not None:
            raise self.damaged(operator, "reads packed signs as numbers")
        return value

    def map(self, operator: Operator, position: int = 0) -> Value:
        """An activation of real values with height and width, channels last."""
        value = self.real(operator, position)
        if value.layout is not Layout.MAP:
            raise self.unsupported(operator, f"reads {value.layout.value} where a map [N, height, width, channels] is")
        return value

    def constant(self, operator: Operator, position: int) -> NDArray[np.generic]:
        """A constant's values as the file has them, or as a step before made them real."""
        tensor = self.tensor(operator, position)
        found = self.constants.get(tensor.index, tensor.data)
        if found is None:
            raise self.unsupported(operator, f"reads {tensor.name!r} as its input {position}, which must be a constant")
        return found

    def weights(self, operator: Operator, position: int, rank: int | None = None) -> Floats:
        """A constant as real numbers, float32: quantized ones times their scale."""
        values = real_constant(self.tensor(operator, position), self.constant(operator, position))
        if values is None or not np.isfinite(values).all():
            raise self.damaged(operator, f"reads input {position}, which are no finite real numbers")
        if rank is not None and values.ndim != rank:
            raise self.damaged(operator, f"reads input {position} of {values.ndim} axes, not {rank}")
        return values

    def integers(self, operator: Operator, position: int) -> list[int]:
        """A constant of whole numbers, in the file's order."""
        values = self.constant(operator, position)
        if values.dtype.kind != "i":
            raise self.damaged(operator, f"reads input {position} as whole numbers, and it is {values.dtype}")
        return [int(value) for value in values.ravel()]

    def output_rank(self, operator: Operator) -> int:
        """Axes of the tensor an operator makes."""
        return len(self.file.tensors[operator.outputs[0]].shape)

    # --- what a step makes --------------------------------------------------------------------------------------------

    def call(self, name: str, module: nn.Module, *nodes: fx.Node) -> fx.Node:
        """A module applied to nodes."""
        self.root.add_module(name, module)
        return self.graph.call_module(name, nodes)

    def norm(
        self, name: str, node: fx.Node, gamma: Floats, beta: Floats, mean: Floats | None = None, row: bool = False
    ) -> fx.Node:
        """(x - mean) * gamma + beta by channel, as a batch norm of variance 1."""
        module = (nn.BatchNorm1d if row else nn.BatchNorm2d)(len(gamma), eps=0.0)
        with torch.no_grad():
            module.weight.copy_(torch.from_numpy(np.ascontiguousarray(gamma)))
            module.bias.copy_(torch.from_numpy(np.ascontiguousarray(beta)))
            if mean is not None:
                assert module.running_mean is not None
                module.running_mean.copy_(torch.from_numpy(np.ascontiguousarray(mean)))
        made = self.call(name, module, node)
        self.norms[made] = module
        return made

    def activation(self, operator: Operator, name: str, node: fx.Node, code: int) -> fx.Node:
        """The activation function an operator brings with it."""
        if code not in _ACTIVATIONS:
            raise self.unsupported(operator, f"has the fused activation function {code}")
        ending, module = _ACTIVATIONS[code]
        return node if module is None else self.call(f"{name}_{ending}", module(), node)

    def is_last(self, operator: Operator, passing: Sequence[str]) -> bool:
        """Whether all that follows a step, to the output, are steps of these kinds."""
        index = operator.outputs[0]
        for later in self.file.operators[operator.index + 1 :]:
            if index in later.inputs:
                if later.kind not in passing or self.readers[index] != 1 or not later.outputs:
                    return False
                index = later.outputs[0]
        return index in self.file.outputs

    def keep(self, operator: Operator, value: Value) -> None:
        """Notes what an operator made, once its shape is the one the file says."""
        tensor = self.file.tensors[operator.outputs[0]]
        if tensor.index in self.values or tensor.data is not None:
            raise self.damaged(operator, "makes what is there already")
        if value.height * value.width * value.channels > MOST_ELEMENTS:
            raise self.damaged(operator, f"makes {value.height}x{value.width}x{value.channels} values, too many")
        expected = value.file_shape(len(tensor.shape))
        if tensor.shape[1:] != expected:
            raise self.damaged(operator, f"makes {list(expected)} where the file says {list(tensor.shape[1:])}")
        self.values[tensor.index] = value


def real_constant(tensor: FileTensor, values: NDArray[np.generic]) -> Floats | None:
    """A constant as float32; None where it is neither real nor quantized."""
    if values.dtype.kind == "f":
        return values.astype(np.float32)
    if tensor.scale is None:
        return None
    along = [1] * values.ndim
    if len(tensor.scale) > 1:
        along[tensor.axis] = -1
    scale, zero = tensor.scale.reshape(along), tensor.zero_point
    zero = zero.reshape(along) if len(zero) > 1 else zero
    reals: Floats = ((values.astype(np.float64) - zero) * scale).astype(np.float32)
    return reals
