"""Operators of Larq Compute Engine: signs packed 32 to a word, bit 1 for -1, and binary convolutions on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import fx, nn

from everbit.formats.importers.tflite.builder import GraphBuilder
from everbit.formats.importers.tflite.file import Operator
from everbit.formats.importers.tflite.values import WORD, Layout, Value
from everbit.formats.importers.tflite.windows import Window, bordered, result, window
from everbit.nn.binary import BinaryConv2d, Sign

ESTIMATOR = "ste_sign"
"""A file does not say how its signs were trained: larq's usual estimator."""

NO_ACTIVATION, RELU = 0, 1


def _signs(build: GraphBuilder, name: str, value: Value) -> Value:
    """The signs of real values. A border in front of a sign becomes one of signs behind it: sign(0) is +1."""
    border = value.border
    if border is not None:
        border = replace(border, value=1.0 if border.value >= 0 else -1.0)
    return replace(value, node=build.call(name, Sign(ESTIMATOR), value.node), real=value.node, border=border)


def quantize(build: GraphBuilder, operator: Operator) -> Value:
    """LceQuantize: bit 1 where the value is below 0."""
    return _signs(build, f"sign_{operator.index}", build.map(operator))


def dequantize(build: GraphBuilder, operator: Operator) -> Value:
    """LceDequantize: the signs as numbers."""
    value = build.value(operator)
    if value.real is None:
        raise build.damaged(operator, "reads numbers as packed signs")
    return replace(value, real=None)


def max_pool(build: GraphBuilder, operator: Operator) -> Value:
    """LceBMaxPool2d: the sign of a maximum is the maximum of signs, so that the pool stands in front of the sign."""
    value, options = _packed(build, operator), operator.options
    kernel = (options["filter_height"], options["filter_width"])
    strides = (options["stride_height"], options["stride_width"])
    over = window(build, operator, kernel, options["padding"], strides)
    name = f"max_pool_{operator.index}"
    assert value.real is not None
    node, padding = bordered(build, operator, name, value, over, float("-inf"), value.real)
    pooled = build.call(name, nn.MaxPool2d(kernel, over.stride, padding), node)
    return _signs(build, f"{name}_sign", result(build, operator, value, over, pooled, value.channels))


def convolution(build: GraphBuilder, operator: Operator) -> Value:
    """LceBconv2d: sums of products of signs, an activation, then a multiplier and a bias; or a threshold.

    The multiplier and bias are a batch norm of variance 1. A threshold T gives -1 where the count of differing signs
    exceeds T, so +1 where the sum z = K - 2 count is at least K - 2 T: the sign of z - (K - 2 T - 1), which is never 0
    because z has the parity of K.
    """
    value, options = _packed(build, operator), operator.options
    if value.channels != options["channels_in"]:
        raise build.damaged(operator, f"reads {value.channels} channels, and says {options['channels_in']}")
    if (options["dilation_height_factor"], options["dilation_width_factor"]) != (1, 1):
        raise build.unsupported(operator, "is dilated")
    signs = _filter_signs(build, operator, value.channels)
    outputs, _, height, width = signs.shape
    strides = (options["stride_height"], options["stride_width"])
    over = window(build, operator, (height, width), options["padding"], strides)
    if over.square is None:
        raise build.unsupported(operator, f"has a kernel of {height}x{width}, which is no square")
    name = f"bconv_{operator.index}"
    sums, pads_zero = _sums(build, operator, name, value, over, signs)
    made = result(build, operator, value, over, sums, outputs)
    if build.file.tensors[operator.outputs[0]].dtype == "int32":
        if pads_zero or options["fused_activation_function"] != NO_ACTIVATION:
            raise build.damaged(operator, "has thresholds behind a border of 0 or an activation")
        return _thresholds(build, operator, name, made, value.channels * height * width)
    node = _clamped(build, operator, name, sums, outputs, pads_zero)
    multiplier, bias = (build.weights(operator, position, rank=1) for position in (2, 3))
    if len(multiplier) != outputs or len(bias) != outputs:
        raise build.damaged(operator, f"has {len(multiplier)} multipliers and {len(bias)} biases for {outputs} filters")
    return replace(made, node=build.norm(f"{name}_bn", node, multiplier, bias))


def _packed(build: GraphBuilder, operator: Operator) -> Value:
    value = build.value(operator)
    if value.real is None:
        raise build.damaged(operator, "reads numbers where packed signs are expected")
    if value.layout is not Layout.MAP:
        raise build.unsupported(operator, f"reads {value.layout.value} where a map [N, height, width, channels] is")
    return value


def _filter_signs(build: GraphBuilder, operator: Operator, channels: int) -> NDArray[np.float32]:
    """Weights -1 or +1, [out, in, height, width], of the words [out, height, width, words]."""
    words = build.constant(operator, 1)
    if words.dtype != np.int32 or words.ndim != 4 or 0 in words.shape:
        raise build.damaged(operator, f"has weights {words.dtype} {list(words.shape)}, not int32 words of four axes")
    if words.shape[3] != -(-channels // WORD):
        if channels % words.shape[3] == 0:
            raise build.unsupported(operator, "is a binary convolution in groups")
        raise build.damaged(operator, f"has {words.shape[3]} words a place for {channels} channels")
    little = np.ascontiguousarray(words).astype("<i4", copy=False).view(np.uint8)
    bits = np.unpackbits(little, axis=3, bitorder="little")[..., :channels]
    return np.ascontiguousarray(1 - 2 * bits.astype(np.float32).transpose(0, 3, 1, 2))


def _sums(
    build: GraphBuilder, operator: Operator, name: str, value: Value, over: Window, signs: NDArray[np.float32]
) -> tuple[fx.Node, bool]:
    """The node of the sums, and whether its border is of zeros."""
    outputs, channels, side, _ = signs.shape
    pads = operator.options["pad_values"]
    if pads not in (0, 1):
        raise build.damaged(operator, f"pads with {pads}, which is neither 0 nor 1")
    needs_border = any(map(any, over.sides(value)))
    node, padding = value.node, 0 if not needs_border else "same"
    if value.border is not None:
        if needs_border:
            raise build.unsupported(operator, "pads what is padded already")
        node = build.call(f"{name}_pad", nn.ConstantPad2d(value.border.sides, value.border.value), node)
    module = BinaryConv2d(channels, outputs, side, over.stride, padding, pads if needs_border else 0, scale=False)
    module.set_binary(torch.from_numpy(signs), torch.ones(outputs))
    return build.call(name, module, node), needs_border and pads == 0


def _clamped(
    build: GraphBuilder, operator: Operator, name: str, sums: fx.Node, outputs: int, pads_zero: bool
) -> fx.Node:
    """The activation between the sums and the multiplier. Only a ReLU may read sums; the others read a batch norm."""
    code = operator.options["fused_activation_function"]
    if code != NO_ACTIVATION and pads_zero:
        raise build.damaged(operator, "has an activation behind a border of 0, which Larq Compute Engine refuses")
    if code not in (NO_ACTIVATION, RELU):
        sums = build.norm(f"{name}_sums", sums, np.ones(outputs, np.float32), np.zeros(outputs, np.float32))
    return build.activation(operator, name, sums, code)


def _thresholds(build: GraphBuilder, operator: Operator, name: str, made: Value, terms: int) -> Value:
    thresholds = build.constant(operator, 4)
    if thresholds.dtype != np.int32 or thresholds.shape != (made.channels,):
        raise build.damaged(operator, f"has thresholds {thresholds.dtype} {list(thresholds.shape)}")
    # Beyond these ends every count is on one side.
    within = np.clip(thresholds.astype(np.int64), -1, terms)
    mean = (terms - 2 * within - 1).astype(np.float32)
    ones, zeros = np.ones(made.channels, np.float32), np.zeros(made.channels, np.float32)
    node = build.norm(f"{name}_bn", made.node, ones, zeros, mean)
    return _signs(build, f"{name}_sign", replace(made, node=node))
