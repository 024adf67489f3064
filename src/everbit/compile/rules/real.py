"""Layers with real weights: convolutions, depthwise ones, those in groups, and dense layers, which are 1x1."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from torch import fx, nn

from everbit.compile.lowering import (
    Border,
    ByChannel,
    Lowering,
    RealWeights,
    channels_last,
    floats,
    named_scale,
    pair,
)
from everbit.compile.program import Tensor
from everbit.compile.rules.joins import sum_of
from everbit.compile.rules.windows import Lengths, binary_border, kernel_attributes, window
from everbit.compile.trace import module_path
from everbit.nn.binary import BinaryConv2d, BinaryLinear
from everbit.quantize.scale import Floats, scale_of

UNIT = (2**31 - 1, 0)
"""The Scale that leaves every integer below 2^30 in size as it is."""

WHOLE = 1e-3  # of a step of 8 bits: weights this near to whole numbers are taken for them
FINER = 64  # steps of the sums that two layers of weights add up, in one of their total

DEPTHWISE_TAPS = 255  # most of a depthwise filter; a larger one is a convolution in groups


def real_layer(low: Lowering, node: fx.Node) -> None:
    """A convolution or dense layer. In the frozen part a batch norm behind it folds into it."""
    module = low.module(node)
    assert isinstance(module, (nn.Conv2d, nn.Linear))
    weight = floats(module.weight)
    if isinstance(module, nn.Linear):
        weight = weight[:, :, np.newaxis, np.newaxis]
    bias = np.zeros(len(weight)) if module.bias is None else floats(module.bias)
    weights = RealWeights(weight, bias, getattr(module, "groups", 1))
    if node in low.learnable:
        _learnable(low, node, weights)
    else:
        frozen_or_deferred(low, node, weights)


def frozen_or_deferred(low: Lowering, node: fx.Node, weights: RealWeights) -> None:
    """A frozen layer now, or where a batch norm alone reads it, as part of that."""
    if low.batch_norm_reader(node) is not None:
        low.deferred[node] = weights
        return
    frozen(low, node, node, low.value(node), weights)


def frozen(low: Lowering, node: fx.Node, output: fx.Node, target: Tensor, weights: RealWeights) -> None:
    """The layer of `node`, whose value is that of `output`: of itself, or of the batch norm that it takes in."""
    source = low.read(node)[1]
    weight, bias = weights.weight, weights.bias
    if source.bits == 32 and bias.any():
        # In steps as fine as these a bias does not fit its 32 bits: it is added behind.
        reach = target.scale * 2.0 ** (target.bits - 1) + float(np.abs(bias).max())
        middle = replace(target, bits=32, zero_point=0, scale=reach / (2**31 - 1))
        frozen(low, node, output, middle, replace(weights, bias=np.zeros_like(bias)))
        low.multiply_add(output, low.tensor[output], ByChannel(np.full(len(bias), middle.scale), bias), target)
        return
    # A channel whose weights nearly vanish keeps a step that leaves room for its bias in 32 bits.
    step = np.maximum(np.abs(weight).max(axis=(1, 2, 3)) / 127, np.abs(bias) / (source.scale * 2.0**30))
    step = np.maximum(step, 1e-30)
    by_output = step[:, None, None, None]
    if low.rehearsal is not None and target.bits == 8:
        whole, bias = low.rehearsal.fit(node, output, weight / by_output, bias, step)
    else:
        whole = np.round(weight / by_output)
    main = replace(weights, weight=whole, bias=np.round(bias / (source.scale * step)))
    left = replace(weights, weight=weight / by_output - main.weight, bias=np.zeros_like(bias))
    if target.bits == 8 or np.abs(left.weight).max() < WHOLE:
        low.tensor[output] = _integer_layer(low, node, output, target, main, step)
        return
    # Finer activations deserve finer weights: what 8 bits leave of them is a second layer, added to the first.
    fine = replace(left, weight=np.clip(np.round(left.weight * 256), -128, 127))
    middle = replace(target, bits=32, zero_point=0, scale=target.scale / (1 if target.bits == 32 else FINER))
    first = _integer_layer(low, node, output, middle, main, step)
    second = _integer_layer(low, node, output, middle, fine, step / 256)
    low.tensor[output] = sum_of(low, output, first, second, target)


def exact_sums(low: Lowering, node: fx.Node, target: Tensor, weights: RealWeights) -> None:
    """A layer of integer weights without bias, its sums as they are: |sum| < 2^30, and a target that holds them."""
    low.tensor[node] = _integer_layer(low, node, node, target, weights, None)


def _integer_layer(
    low: Lowering, node: fx.Node, output: fx.Node, target: Tensor, integers: RealWeights, step: Floats | None
) -> int:
    """A layer of whole weights and biases, each a step [out] in size; sums as they are without steps.

    Returns its output's index.
    """
    index, source = low.read(node)
    kind, window_attributes = _kind_and_window(low, node, source, integers)
    scales = [UNIT] * len(integers.bias) if step is None else [scale_of(source.scale * s / target.scale) for s in step]
    mantissas, exponents = zip(*scales, strict=True)
    return low.builder.add(
        kind,
        module_path(output),
        (index,),
        target,
        attributes={**window_attributes, "input_mantissa": 0, "input_exponent": 0},
        arrays={
            "weight": _in_order(kind, integers.weight).astype(np.int8),
            "bias": integers.bias.astype(np.int32),
            "multiplier_mantissa": np.array(mantissas, np.int32),
            "multiplier_exponent": np.array(exponents, np.int8),
        },
    )


def _learnable(low: Lowering, node: fx.Node, weights: RealWeights) -> None:
    if low.batch_norm_reader(node) is None:
        raise low.error(
            node, "learns, but no batch norm alone reads it", "put a batch norm behind it, or cut the network later"
        )
    index, source = low.read(node)
    target = low.raw(node)
    kind, window_attributes = _kind_and_window(low, node, source, weights)
    weight = low.parameter(_in_order(kind, weights.weight), least=-4)
    mantissa, exponent = scale_of(source.scale * 2.0 ** (weight.range_exponent - 7) / target.scale)
    low.tensor[node] = low.builder.add(
        kind,
        module_path(node),
        (index,),
        target,
        attributes={**window_attributes, **named_scale("input", source.scale)},
        arrays={
            "multiplier_mantissa": np.array([mantissa], np.int32),
            "multiplier_exponent": np.array([exponent], np.int8),
        },
        parameters={"weight": weight},
    )


def _in_order(kind: str, weight: Floats) -> Floats:
    """Weights [out, in / groups, height, width] in the program's order."""
    ordered: Floats = weight[:, 0].transpose(1, 2, 0) if kind == "depthwise_convolution" else channels_last(weight)
    return np.ascontiguousarray(ordered)


def _kind_and_window(low: Lowering, node: fx.Node, source: Tensor, weights: RealWeights) -> tuple[str, dict[str, int]]:
    outputs, _, height, width = weights.weight.shape
    if low.shape(node)[2] != outputs or weights.weight.shape[1] * weights.groups != source.channels:
        raise low.error(node, f"reads {source.channels} channels in another order", "flatten the map in front of it")
    kernel = (height, width)
    border, stride = _geometry(low, node, source, kernel)
    attributes, value = window(low, node, source, kernel, stride, border)
    if value != 0:
        raise low.error(node, f"reads a border of {value:g}", "a convolution with real weights pads with 0")
    attributes |= kernel_attributes(kernel)
    if weights.groups == source.channels == outputs and height * width <= DEPTHWISE_TAPS:
        return "depthwise_convolution", attributes
    return "convolution", attributes | {"groups": weights.groups}


def _geometry(low: Lowering, node: fx.Node, source: Tensor, kernel: tuple[int, int]) -> tuple[Border, Lengths]:
    """Border and stride of a layer."""
    module = low.module(node)
    if isinstance(module, (nn.Linear, BinaryLinear)):
        return Border(0, 0, 0.0), 1
    if isinstance(module, BinaryConv2d):
        return binary_border(source, module), module.stride
    assert isinstance(module, nn.Conv2d)
    if module.padding_mode != "zeros":
        raise low.error(node, f"pads by {module.padding_mode}", "pad with zeros")
    if isinstance(module.padding, str):
        # PyTorch's "same" has stride 1 and puts what is odd below and right.
        sides = [(length - 1) // 2 for length in kernel] if module.padding == "same" else [0, 0]
        return Border(sides[0], sides[1], 0.0), module.stride
    top, left = pair(module.padding)
    return Border(top, left, 0.0), module.stride
