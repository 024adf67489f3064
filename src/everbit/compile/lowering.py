"""What a lowering rule works with: the graph, what calibration measured, and the program so far."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import fx, nn

from everbit.compile.builder import ProgramBuilder
from everbit.compile.program import Parameter, Tensor
from everbit.compile.trace import module_path
from everbit.errors import CompileError
from everbit.nn.binary import BinaryConv2d
from everbit.quantize.calibrate import Calibration
from everbit.quantize.scale import Floats, activation_numbers, parameter_values, range_exponent_of, scale_of
from everbit.quantize.widths import Widths

LEARNABLE_MARGIN = 1.5
"""Activations behind the cut move as the device learns: their range is wider than calibration saw by this factor."""


@dataclass
class Lowering:
    """State of one compilation.

    learnable: nodes behind the cut. tensor: program tensor of each lowered node. channel_scale: for the exact integer
    sums of a binary convolution, the real value of one unit in each channel. pending_bias: a learned bias that the sign
    behind it takes over. magnitude: size every latent binary weight starts from, in (0, 1).
    """

    graph: fx.GraphModule
    calibration: Calibration
    widths: Widths
    learnable: set[fx.Node]
    magnitude: float
    builder: ProgramBuilder = field(default_factory=ProgramBuilder)
    tensor: dict[fx.Node, int] = field(default_factory=dict)
    channel_scale: dict[fx.Node, Floats] = field(default_factory=dict)
    pending_bias: dict[fx.Node, Floats] = field(default_factory=dict)

    @property
    def frozen_batch_norms(self) -> set[fx.Node]:
        """Batch norms in front of the cut: only those fold into the convolution before them."""
        nodes = self.graph.graph.nodes
        return {
            node
            for node in nodes
            if node not in self.learnable and node.op == "call_module" and isinstance(self.module(node), nn.BatchNorm2d)
        }

    def module(self, node: fx.Node) -> nn.Module:
        """The module a call_module node calls."""
        return self.graph.get_submodule(str(node.target))

    def source(self, node: fx.Node, position: int = 0) -> fx.Node:
        """The node that makes an input."""
        argument = node.args[position]
        if not isinstance(argument, fx.Node):
            raise self.error(node, "reads a constant", "use layers with parameters instead")
        return argument

    def read(self, node: fx.Node, position: int = 0) -> tuple[int, Tensor]:
        """Index and numbers of the tensor an input of a node stands in."""
        source = self.source(node, position)
        if source in self.channel_scale:
            raise self.error(
                node,
                "reads the sums of a binary convolution",
                "put a batch norm behind the convolution (a pool may stand between)",
            )
        if source not in self.tensor:
            raise self.error(
                node,
                f"reads {module_path(source)}, which has no value of its own",
                "see docs/compile.md for what is supported",
            )
        index = self.tensor[source]
        if self.builder.tensors[index].bits == 1 and not isinstance(self.module(node), BinaryConv2d):
            raise self.error(node, "reads signs", "put a BinaryConv2d behind the Sign")
        return index, self.builder.tensors[index]

    def shape(self, node: fx.Node) -> tuple[int, int, int]:
        """Height, width, channels of a node's output."""
        shape = self.calibration.shapes[node]
        channels, height, width = (*shape, 1, 1)[:3]
        return height, width, channels

    def activation(self, node: fx.Node) -> Tensor:
        """A q_f-bit tensor for a node's output, by its calibrated range."""
        margin = LEARNABLE_MARGIN if node in self.learnable else 1.0
        low, high = self.calibration.ranges[node]
        scale, zero_point = activation_numbers(low * margin, high * margin, self.widths.q_f)
        return Tensor(*self.shape(node), self.widths.q_f, zero_point, scale)

    def raw(self, node: fx.Node) -> Tensor:
        """A 16-bit tensor whose scale is a power of two, for values a learnable batch norm reads."""
        low, high = self.calibration.ranges[node]
        largest = max(abs(low), abs(high)) * LEARNABLE_MARGIN
        exponent = math.ceil(math.log2(largest / (2**15 - 1))) if largest > 0 else 0
        return Tensor(*self.shape(node), 16, 0, 2.0**exponent)

    def parameter(self, values: Floats, least: int) -> Parameter:
        """A trainable tensor with a bit of headroom over its starting values, and a range of at least 2^least."""
        exponent = range_exponent_of(values, least=least)
        return Parameter(parameter_values(values, exponent), exponent)

    def error(self, node: fx.Node, wrong: str, cure: str) -> CompileError:
        """An error that names the module."""
        return CompileError(f"{module_path(node)}: {wrong}; {cure}")


def named_scale(name: str, real: float) -> dict[str, int]:
    """A Scale as the two attributes `name`_mantissa and `name`_exponent."""
    mantissa, exponent = scale_of(real)
    return {f"{name}_mantissa": mantissa, f"{name}_exponent": exponent}


def floats(tensor: object) -> Floats:
    """A torch tensor as float64 NumPy."""
    values: Floats = tensor.detach().cpu().double().numpy()  # type: ignore[attr-defined]
    return values


def pair(value: int | tuple[int, ...]) -> tuple[int, int]:
    """torch's int-or-pair as a pair."""
    return (value[0], value[1]) if isinstance(value, tuple) else (value, value)


def channels_last(weight: Floats) -> NDArray[np.float64]:
    """Weights [out, in, height, width] -> [out, height, width, in]."""
    return np.ascontiguousarray(weight.transpose(0, 2, 3, 1))
