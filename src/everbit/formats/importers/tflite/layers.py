"""Layers with real weights, and pools."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import nn

from everbit.formats.importers.tflite.builder import Floats, GraphBuilder
from everbit.formats.importers.tflite.file import Operator
from everbit.formats.importers.tflite.values import Layout, Value
from everbit.formats.importers.tflite.windows import Window, bordered, result, window
from everbit.nn.windows import BlurPool2d

PASSING = ("SOFTMAX", "RESHAPE", "SQUEEZE", "QUANTIZE", "DEQUANTIZE")
"""Steps that may follow the last layer: they do not change which class is first."""

_BINOMIAL = np.outer([1.0, 2.0, 1.0], [1.0, 2.0, 1.0]).astype(np.float32) / 16


def _over(build: GraphBuilder, operator: Operator, kernel: tuple[int, int]) -> Window:
    options = operator.options
    if (options.get("DilationHFactor", 1), options.get("DilationWFactor", 1)) != (1, 1):
        raise build.unsupported(operator, "is dilated")
    return window(build, operator, kernel, options["Padding"], (options["StrideH"], options["StrideW"]))


def _bias(build: GraphBuilder, operator: Operator, outputs: int) -> Floats:
    if not build.has(operator, 2):
        return np.zeros(outputs, np.float32)
    bias = build.weights(operator, 2, rank=1)
    if len(bias) != outputs:
        raise build.damaged(operator, f"has {len(bias)} biases for {outputs} outputs")
    return bias


def convolution(build: GraphBuilder, operator: Operator) -> Value:
    """CONV_2D, weights [out, height, width, in / groups]; on a map of one place a dense layer."""
    value = build.real(operator)
    weight = build.weights(operator, 1, rank=4)
    outputs, height, width, inputs = weight.shape
    if 0 in weight.shape or value.channels % inputs or outputs % (value.channels // inputs):
        raise build.damaged(operator, f"has weights {list(weight.shape)} for {value.channels} channels")
    groups = value.channels // inputs
    if (value.height, value.width, height, width, groups) == (1, 1, 1, 1, 1):
        return _dense(build, operator, value, weight.reshape(outputs, inputs))
    over = _over(build, operator, (height, width))
    return _convolved(build, operator, f"conv_{operator.index}", over, weight.transpose(0, 3, 1, 2), groups)


def depthwise_convolution(build: GraphBuilder, operator: Operator) -> Value:
    """DEPTHWISE_CONV_2D, weights [1, height, width, in * multiplier]; the binomial filter is a blur pool."""
    value = build.map(operator)
    weight = build.weights(operator, 1, rank=4)
    one, height, width, outputs = weight.shape
    if one != 1 or 0 in weight.shape or outputs % value.channels:
        raise build.damaged(operator, f"has weights {list(weight.shape)} for {value.channels} channels")
    over = _over(build, operator, (height, width))
    if _blurs(build, operator, value, weight):
        name = f"blur_{operator.index}"
        node = build.call(name, BlurPool2d(over.stride, "same" if over.same else 0), value.node)
        node = build.activation(operator, name, node, operator.options["FusedActivationFunction"])
        return result(build, operator, value, over, node, outputs)
    filters = weight.transpose(3, 0, 1, 2)
    return _convolved(build, operator, f"depthwise_{operator.index}", over, filters, value.channels)


def _blurs(build: GraphBuilder, operator: Operator, value: Value, weight: Floats) -> bool:
    same = weight.shape == (1, 3, 3, value.channels) and np.allclose(weight[0], _BINOMIAL[:, :, None], 0, 1e-6)
    return same and value.border is None and not _bias(build, operator, value.channels).any()


def _convolved(build: GraphBuilder, operator: Operator, name: str, over: Window, weight: Floats, groups: int) -> Value:
    """A convolution without bias, its bias as a batch norm, so that it can learn; then the activation."""
    value, outputs = build.map(operator), len(weight)
    node, padding = bordered(build, operator, name, value, over, 0.0, value.node)
    module = nn.Conv2d(value.channels, outputs, over.kernel, over.stride, padding, groups=groups, bias=False)
    _set(module, weight)
    node = build.call(name, module, node)
    node = build.norm(f"{name}_bn", node, np.ones(outputs, np.float32), _bias(build, operator, outputs))
    node = build.activation(operator, name, node, operator.options["FusedActivationFunction"])
    return result(build, operator, value, over, node, outputs)


@torch.no_grad()
def _set(module: nn.Conv2d | nn.Linear, weight: Floats) -> None:
    module.weight.copy_(torch.from_numpy(np.ascontiguousarray(weight)))


def fully_connected(build: GraphBuilder, operator: Operator) -> Value:
    """FULLY_CONNECTED, weights [out, in]; a map in front of it is flattened as the file does, channels last."""
    value = build.real(operator)
    weight = build.weights(operator, 1, rank=2)
    if operator.options["WeightsFormat"] != 0:
        raise build.unsupported(operator, "has shuffled weights")
    inputs = value.height * value.width * value.channels
    if 0 in weight.shape or weight.shape[1] != inputs:
        raise build.damaged(operator, f"has weights {list(weight.shape)} for {inputs} inputs")
    return _dense(build, operator, value, weight)


def _dense(build: GraphBuilder, operator: Operator, value: Value, weight: Floats) -> Value:
    """The last layer is one with a bias, the network's head; the others have a batch norm, so that they can learn."""
    row = flattened(build, operator, value)
    if row.from_map is not None:
        height, width, channels = row.from_map
        by_place = weight.reshape(-1, height, width, channels)
        weight = np.ascontiguousarray(by_place.transpose(0, 3, 1, 2)).reshape(len(weight), -1)
    outputs, inputs = weight.shape
    bias, code = _bias(build, operator, outputs), operator.options["FusedActivationFunction"]
    name = f"dense_{operator.index}"
    last = code == 0 and build.is_last(operator, PASSING)
    module = nn.Linear(inputs, outputs, bias=last)
    _set(module, weight)
    node = build.call(name, module, row.node)
    if last:
        with torch.no_grad():
            module.bias.copy_(torch.from_numpy(bias))
    else:
        node = build.norm(f"{name}_bn", node, np.ones(outputs, np.float32), bias, row=True)
        node = build.activation(operator, name, node, code)
    return Value(node, 1, 1, outputs, Layout.ROW)


def flattened(build: GraphBuilder, operator: Operator, value: Value) -> Value:
    """A map as a row. PyTorch flattens channels first; `from_map` remembers that the file has channels last."""
    if value.layout is Layout.ROW:
        return value
    if value.border is not None:
        raise build.unsupported(operator, "flattens a padded map")
    node = build.call(f"flatten_{operator.index}", nn.Flatten(), value.node)
    several = value.height * value.width > 1 and value.layout is Layout.MAP
    from_map = (value.height, value.width, value.channels) if several else None
    return Value(node, 1, 1, value.height * value.width * value.channels, Layout.ROW, from_map)


def max_pool(build: GraphBuilder, operator: Operator) -> Value:
    """MAX_POOL_2D; what lies outside the map never wins."""
    value, options = build.map(operator), operator.options
    over = _over(build, operator, (options["FilterHeight"], options["FilterWidth"]))
    name = f"max_pool_{operator.index}"
    node, padding = bordered(build, operator, name, value, over, float("-inf"), value.node)
    if any(2 * side > length for side, length in zip(padding, over.kernel, strict=True)):
        raise build.damaged(operator, f"pads by {padding} for a window of {over.kernel}")
    node = build.call(name, nn.MaxPool2d(over.square or over.kernel, over.stride, padding), node)
    node = build.activation(operator, name, node, options["FusedActivationFunction"])
    return result(build, operator, value, over, node, value.channels)


def average_pool(build: GraphBuilder, operator: Operator) -> Value:
    """AVERAGE_POOL_2D; what lies outside the map is left out of the mean."""
    value, options = build.map(operator), operator.options
    over = _over(build, operator, (options["FilterHeight"], options["FilterWidth"]))
    name = f"average_pool_{operator.index}"
    (top, bottom), (left, right) = over.sides(value)
    kernel, node = over.square or over.kernel, value.node
    if value.border is not None:
        node, _ = bordered(build, operator, name, value, over, 0.0, node)
        module: nn.Module = nn.AvgPool2d(kernel, over.stride)
    elif over.kernel == (value.height, value.width) and not (top or bottom or left or right):
        module = nn.AdaptiveAvgPool2d(1)
    elif (top, left) == (bottom, right):
        module = nn.AvgPool2d(kernel, over.stride, (top, left), count_include_pad=False)
    elif (top, left) == (0, 0) and max(bottom, right) < over.stride:
        module = nn.AvgPool2d(kernel, over.stride, ceil_mode=True)
    else:
        raise build.unsupported(operator, "averages over windows with more places outside on one side than the other")
    node = build.call(name, module, node)
    node = build.activation(operator, name, node, options["FusedActivationFunction"])
    return result(build, operator, value, over, node, value.channels)


def mean(build: GraphBuilder, operator: Operator) -> Value:
    """MEAN over height and width."""
    value = build.real(operator)
    places = {Layout.MAP: {1, 2}, Layout.CHANNELS_FIRST: {2, 3}}.get(value.layout)
    axes = {axis + 4 if axis < 0 else axis for axis in build.integers(operator, 1)}
    if axes != places or value.border is not None:
        raise build.unsupported(operator, f"is a mean over the axes {sorted(axes)} of {value.layout.value}")
    node = build.call(f"mean_{operator.index}", nn.AdaptiveAvgPool2d(1), value.node)
    pooled = replace(value, node=node, height=1, width=1)
    return pooled if build.output_rank(operator) == 4 else flattened(build, operator, pooled)
