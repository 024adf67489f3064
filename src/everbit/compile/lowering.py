"""What a lowering rule works with: the graph, what calibration measured, and the program so far."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from torch import fx, nn

from everbit.compile.builder import ProgramBuilder
from everbit.compile.clamps import clamp_bounds
from everbit.compile.program import Parameter, Tensor
from everbit.compile.rehearsal import Rehearsal
from everbit.compile.trace import module_path
from everbit.errors import CompileError
from everbit.quantize.calibrate import Calibration
from everbit.quantize.scale import (
    NARROW,
    WIDE,
    Floats,
    activation_numbers,
    affine_of,
    parameter_values,
    range_exponent_of,
    scale_of,
)
from everbit.quantize.widths import Widths

LEARNABLE_MARGIN = 1.5
"""Activations behind the cut move as the device learns: their range is wider than calibration saw by this factor."""


BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


@dataclass(frozen=True)
class Border:
    """Rows above and columns left of a map, filled with a value; what lies below and right follows from the output."""

    top: int
    left: int
    value: float


@dataclass(frozen=True)
class RealWeights:
    """A layer with real weights, [out, in / groups, height, width], and one bias for each output."""

    weight: Floats
    bias: Floats
    groups: int


@dataclass(frozen=True)
class ByChannel:
    """What the integers of a tensor stand for, channel by channel: factor * q + offset, factor >= 0."""

    factor: Floats
    offset: Floats

    def then(self, factor: Floats | float, offset: Floats) -> ByChannel:
        """The same integers after a multiply-add of what they stand for."""
        return ByChannel(self.factor * factor, self.offset * factor + offset)


@dataclass
class Lowering:
    """State of one compilation.

    learnable: nodes behind the cut. tensor: program tensor of each lowered node. stands_for: what the integers of that
    tensor stand for where its own numbers do not say it: the exact sums of a layer with binary weights, and in the
    frozen part what stands before a sign and only moves its threshold. reach: by tensor, the largest |q - Z| where it
    is known to be less than the tensor's bits allow. pending_bias: a learned bias that the sign behind it takes over.
    pending_border: a border that the window behind it takes over. deferred: a frozen layer with real weights that the
    batch norm behind it becomes part of. magnitude: size every latent binary weight starts from, in (0, 1). rehearsal:
    by which frozen 8-bit weights are rounded, None where they are rounded to nearest.
    """

    graph: fx.GraphModule
    calibration: Calibration
    widths: Widths
    learnable: set[fx.Node]
    magnitude: float
    builder: ProgramBuilder = field(default_factory=ProgramBuilder)
    tensor: dict[fx.Node, int] = field(default_factory=dict)
    stands_for: dict[fx.Node, ByChannel] = field(default_factory=dict)
    reach: dict[int, int] = field(default_factory=dict)
    pending_bias: dict[fx.Node, Floats] = field(default_factory=dict)
    pending_border: dict[fx.Node, Border] = field(default_factory=dict)
    deferred: dict[fx.Node, RealWeights] = field(default_factory=dict)
    rehearsal: Rehearsal | None = None

    def going_on(self, calibration: Calibration, widths: Widths, magnitude: float) -> Lowering:
        """A copy that lowers what is left by another calibration, at other widths; this one stays as it is."""
        return replace(
            self,
            calibration=calibration,
            widths=widths,
            magnitude=magnitude,
            builder=ProgramBuilder(list(self.builder.tensors), list(self.builder.layers)),
            tensor=dict(self.tensor),
            stands_for=dict(self.stands_for),
            reach=dict(self.reach),
            pending_bias=dict(self.pending_bias),
            pending_border=dict(self.pending_border),
            deferred=dict(self.deferred),
            rehearsal=None,
        )

    def module(self, node: fx.Node) -> nn.Module | None:
        """The module a call_module node calls; None for other nodes."""
        return self.graph.get_submodule(str(node.target)) if node.op == "call_module" else None

    def is_cut(self, node: fx.Node) -> bool:
        """Whether a node's value is the latent."""
        return node not in self.learnable and any(user in self.learnable for user in node.users)

    def only_reader(self, node: fx.Node) -> fx.Node | None:
        """The node that alone reads another on the same side of the cut, if there is one."""
        users = list(node.users)
        return users[0] if len(users) == 1 and (users[0] in self.learnable) == (node in self.learnable) else None

    def batch_norm_reader(self, node: fx.Node) -> fx.Node | None:
        """The batch norm that alone reads a node on the same side of the cut, if there is one."""
        reader = self.only_reader(node)
        return reader if reader is not None and isinstance(self.module(reader), BATCH_NORMS) else None

    def source(self, node: fx.Node, position: int = 0) -> fx.Node:
        """The node that makes an input."""
        argument = node.args[position]
        if not isinstance(argument, fx.Node):
            raise self.error(node, "reads a constant", "use layers with parameters instead")
        return argument

    def read(self, node: fx.Node, position: int = 0, signs: bool = False) -> tuple[int, Tensor]:
        """Index and numbers of the tensor an input of a node stands in; signs: whether it may be of single bits."""
        return self.read_from(node, self.source(node, position), signs)

    def read_from(self, node: fx.Node, source: fx.Node, signs: bool = False) -> tuple[int, Tensor]:
        """Index and numbers of the tensor that one node makes and another reads."""
        if source in self.stands_for:
            if source in self.learnable:
                raise self.error(
                    node,
                    "reads the sums of a binary convolution",
                    "put a batch norm behind the convolution (a pool may stand between)",
                )
            self.round(source)
        if source not in self.tensor:
            raise self.error(
                node,
                f"reads {module_path(source)}, which has no value of its own",
                "see docs/compile.md for what is supported",
            )
        index = self.tensor[source]
        if self.builder.tensors[index].bits == 1 and not signs:
            raise self.error(node, "reads signs", "put a BinaryConv2d or BinaryLinear behind the Sign")
        return index, self.builder.tensors[index]

    def numbers(self, node: fx.Node) -> Tensor | None:
        """Bits, scale and zero point that say what a node's integers stand for, where they are at most 16 bits."""
        index = self.tensor.get(node)
        if index is None or node in self.stands_for or self.builder.tensors[index].bits == 32:
            return None
        return self.builder.tensors[index]

    def by_channel(self, node: fx.Node, source: fx.Node) -> tuple[int, ByChannel]:
        """The tensor that one node makes and another reads, and what its integers stand for."""
        if source in self.stands_for:
            return self.tensor[source], self.stands_for[source]
        index, tensor = self.read_from(node, source)
        factor = np.full(tensor.channels, tensor.scale)
        return index, ByChannel(factor, -factor * tensor.zero_point)

    def round(self, node: fx.Node) -> None:
        """Brings what the integers of a frozen node stand for to a tensor of its own, by one multiply-add."""
        self.multiply_add(node, self.tensor[node], self.stands_for.pop(node), self.value(node))

    def multiply_add(self, node: fx.Node, index: int, stands_for: ByChannel, target: Tensor) -> None:
        """The layer `affine`: what the integers of tensor `index` stand for becomes the value of a node."""
        wide = 32 in (target.bits, self.builder.tensors[index].bits)
        factor, offset = stands_for.factor / target.scale, stands_for.offset / target.scale
        A, B, s = affine_of(factor, offset, WIDE if wide else NARROW)
        arrays: dict[str, NDArray[np.generic]] = {"A": A, "B": B, "s": s}
        self.tensor[node] = self.builder.add("affine", module_path(node), (index,), target, arrays=arrays)

    def largest(self, index: int) -> int:
        """The largest |q - Z| that a tensor may hold."""
        tensor = self.builder.tensors[index]
        return self.reach.get(index, int(2 ** (tensor.bits - 1)) + abs(tensor.zero_point))

    def shape(self, node: fx.Node) -> tuple[int, int, int]:
        """Height, width, channels of a node's output."""
        shape = self.calibration.shapes[node]
        channels, height, width = (*shape, 1, 1)[:3]
        return height, width, channels

    def activation(self, node: fx.Node) -> Tensor:
        """A q_f-bit tensor for a node's output, by its calibrated range.

        Where a ReLU alone reads the node, by the ReLU's: the tensor then saturates at 0 just where the ReLU does.
        """
        margin = LEARNABLE_MARGIN if node in self.learnable else 1.0
        reader = self.only_reader(node)
        bounds = None if reader is None else clamp_bounds(self.graph, reader)
        if bounds is not None and bounds[0] == 0:
            assert reader is not None
            high = min(bounds[1], self.calibration.ranges[reader][1] * margin)
            scale, zero_point = activation_numbers(0.0, high, self.widths.q_f)
        else:
            low, high = self.calibration.ranges[node]
            scale, zero_point = activation_numbers(low * margin, high * margin, self.widths.q_f)
        return Tensor(*self.shape(node), self.widths.q_f, zero_point, scale)

    def raw(self, node: fx.Node) -> Tensor:
        """A 16-bit tensor whose scale is a power of two, for values a learnable batch norm reads."""
        low, high = self.calibration.extremes[node]
        largest = max(abs(low), abs(high)) * LEARNABLE_MARGIN
        exponent = math.ceil(math.log2(largest / (2**15 - 1))) if largest > 0 else 0
        return Tensor(*self.shape(node), 16, 0, 2.0**exponent)

    def value(self, node: fx.Node) -> Tensor:
        """A tensor for a frozen node's output: raw where a learnable batch norm right behind the cut reads it."""
        users = list(node.users)
        before_norm = len(users) == 1 and isinstance(self.module(users[0]), BATCH_NORMS)
        return self.raw(node) if before_norm and self.is_cut(node) else self.activation(node)

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
