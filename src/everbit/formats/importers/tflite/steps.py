"""Steps between layers: sums, factors and offsets by channel, activations, borders, changes of shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import fx, nn

from everbit.formats.importers.tflite.builder import Floats, GraphBuilder, real_constant
from everbit.formats.importers.tflite.file import Operator
from everbit.formats.importers.tflite.layers import PASSING, flattened
from everbit.formats.importers.tflite.values import Layout, Value
from everbit.formats.importers.tflite.windows import pad_border
from everbit.nn.binary import RPReLU
from everbit.zoo.birealnet import Add
from everbit.zoo.reactnet_a import Concatenate

_TAKE_BORDERS = ("CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D", "LceQuantize")
_TO_LAST, _TO_FIRST = [0, 2, 3, 1], [0, 3, 1, 2]


def arithmetic(build: GraphBuilder, operator: Operator) -> Value:
    """ADD, SUB, MUL: of two activations the sum alone; with a constant by channel, part of a batch norm."""
    constants = [position for position in (0, 1) if build.is_constant(operator, position)]
    code = operator.options["FusedActivationFunction"]
    name = f"{operator.kind.lower()}_{operator.index}"
    if constants == [0] or constants == [1]:
        value = _by_channel(build, operator, name, constants[0])
    elif operator.kind == "ADD":
        value, other = build.real(operator, 0), build.real(operator, 1)
        if replace(value, node=other.node) != other or value.border is not None:
            raise build.unsupported(operator, "adds activations of different shapes")
        value = replace(value, node=build.call(name, Add(), value.node, other.node))
    else:
        raise build.unsupported(operator, "combines two activations; only their sum is supported")
    return replace(value, node=build.activation(operator, name, value.node, code))


def _by_channel(build: GraphBuilder, operator: Operator, name: str, position: int) -> Value:
    value = build.real(operator, 1 - position)
    constant = channel_constant(build, operator, position, value)
    ones, zeros = np.ones_like(constant), np.zeros_like(constant)
    factor, offset = {
        "ADD": (ones, constant),
        "SUB": (ones, -constant) if position == 1 else (-ones, constant),
        "MUL": (constant, zeros),
    }[operator.kind]
    if value.border is not None:
        raise build.unsupported(operator, "reads a padded map")
    norm = build.norms.get(value.node)
    if norm is not None and build.readers[operator.inputs[1 - position]] == 1:
        with torch.no_grad():
            norm.weight.mul_(torch.from_numpy(factor))
            norm.bias.mul_(torch.from_numpy(factor)).add_(torch.from_numpy(offset))
        return value
    node = build.norm(f"{name}_bn", value.node, factor, offset, row=value.layout is Layout.ROW)
    return replace(value, node=node)


def channel_constant(build: GraphBuilder, operator: Operator, position: int, value: Value) -> Floats:
    """A constant of one number, or of one for each channel, as one for each channel in PyTorch's order."""
    found = build.weights(operator, position)
    if found.size == 1:
        return np.full(value.channels, found.ravel()[0], np.float32)
    last = 3 if value.layout is Layout.CHANNELS_FIRST else 1
    axis = found.ndim - last
    if found.size != value.channels or axis < 0 or found.shape[axis] != value.channels:
        raise build.unsupported(operator, f"has a constant {list(found.shape)}, not one number for each channel")
    row = found.ravel()
    if value.from_map is not None:
        row = row.reshape(value.from_map).transpose(2, 0, 1).ravel()
    return np.ascontiguousarray(row)


def activation(module: Callable[[], nn.Module]) -> Callable[[GraphBuilder, Operator], Value]:
    """The rule of an activation function that is an operator of its own."""

    def rule(build: GraphBuilder, operator: Operator) -> Value:
        value = build.real(operator)
        if value.border is not None:
            raise build.unsupported(operator, "reads a padded map")
        return replace(value, node=build.call(f"{operator.kind.lower()}_{operator.index}", module(), value.node))

    return rule


def prelu(build: GraphBuilder, operator: Operator) -> Value:
    """PRELU with one slope for each channel."""
    value = build.map(operator)
    slope = channel_constant(build, operator, 1, value)
    module = RPReLU(value.channels)
    with torch.no_grad():
        module.slope.copy_(torch.from_numpy(slope))
    return replace(value, node=build.call(f"prelu_{operator.index}", module, value.node))


def pad(build: GraphBuilder, operator: Operator) -> Value:
    """PAD, PADV2: a border, left to the window behind it where there is one."""
    value = build.map(operator)
    fill = float(build.weights(operator, 2).ravel()[0]) if build.has(operator, 2) else 0.0
    border = pad_border(build, operator, fill)
    if value.border is not None:
        raise build.unsupported(operator, "pads what is padded already")
    height, width = value.height + border.top + border.bottom, value.width + border.left + border.right
    made = replace(value, height=height, width=width)
    index = operator.outputs[0]
    if all(later.kind in _TAKE_BORDERS for later in build.file.operators if index in later.inputs):
        return replace(made, border=border)
    return replace(made, node=build.call(f"pad_{operator.index}", nn.ConstantPad2d(border.sides, fill), value.node))


def concatenation(build: GraphBuilder, operator: Operator) -> Value:
    """CONCATENATION of channels."""
    parts = [build.real(operator, position) for position in range(len(operator.inputs))]
    first, rank = parts[0], build.output_rank(operator)
    axis = operator.options["Axis"] % max(rank, 1)
    if axis != (1 if first.layout is Layout.CHANNELS_FIRST else rank - 1):
        raise build.unsupported(operator, f"joins along axis {axis}, not along channels")
    alike = (first.height, first.width, first.layout, None, None)
    if any((part.height, part.width, part.layout, part.from_map, part.border) != alike for part in parts):
        raise build.unsupported(operator, "joins activations of different shapes")
    name = f"concat_{operator.index}"
    node = build.call(name, Concatenate(), *(part.node for part in parts))
    node = build.activation(operator, name, node, operator.options["FusedActivationFunction"])
    return replace(first, node=node, channels=sum(part.channels for part in parts))


def reshape(build: GraphBuilder, operator: Operator) -> Value:
    """RESHAPE, SQUEEZE: a map to a row, or no change."""
    value = build.real(operator)
    shape = build.file.tensors[operator.outputs[0]].shape[1:]
    if shape == value.file_shape(len(shape) + 1):
        return value
    if len(shape) == 1:
        return flattened(build, operator, value)
    if value.height * value.width == 1 and value.border is None and shape == (1, 1, value.channels):
        return flattened(build, operator, value)
    raise build.unsupported(operator, f"makes {list(shape)} of {list(value.file_shape(4))}")


def transpose(build: GraphBuilder, operator: Operator) -> Value:
    """TRANSPOSE between channels last and channels first, which PyTorch's layout does not see."""
    value, order = build.real(operator), build.integers(operator, 1)
    if order == list(range(len(order))):
        return value
    if order == _TO_LAST and value.layout is Layout.CHANNELS_FIRST:
        return replace(value, layout=Layout.MAP)
    if order == _TO_FIRST and value.layout is Layout.MAP:
        return replace(value, layout=Layout.CHANNELS_FIRST)
    raise build.unsupported(operator, f"turns the axes of {value.layout.value} to {order}")


def passed(build: GraphBuilder, operator: Operator) -> Value:
    """QUANTIZE and DEQUANTIZE of an activation: the program chooses its own steps."""
    return build.real(operator)


def dequantize(build: GraphBuilder, operator: Operator) -> Value | None:
    """DEQUANTIZE: of a constant, its real values; nothing for the graph."""
    if not build.is_constant(operator, 0):
        return passed(build, operator)
    values = real_constant(build.tensor(operator, 0), build.constant(operator, 0))
    if values is None:
        raise build.damaged(operator, "has no scale")
    build.constants[operator.outputs[0]] = values
    return None


def softmax(build: GraphBuilder, operator: Operator) -> Value:
    """SOFTMAX at the end, which leaves the logits' order as it is and is dropped."""
    if not build.is_last(operator, PASSING):
        raise build.unsupported(operator, "is a softmax inside the network")
    return build.real(operator)


def is_turned(build: GraphBuilder, index: int) -> bool:
    """Whether all that reads a tensor turns it from channels first to channels last."""
    readers = [operator for operator in build.file.operators if index in operator.inputs]
    return bool(readers) and all(
        operator.kind == "TRANSPOSE" and build.integers(operator, 1) == _TO_LAST for operator in readers
    )


def final(build: GraphBuilder, value: Value) -> fx.Node:
    """The node of the network's result as a row."""
    if value.layout is Layout.ROW:
        return value.node
    return build.call("flatten", nn.Flatten(), value.node)
