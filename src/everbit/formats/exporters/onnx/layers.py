"""Layers with weights: convolutions, dense layers, batch norms, learned biases and slopes."""

from __future__ import annotations

import torch
from onnx import TensorProto
from torch import Tensor, fx, nn

from everbit.compile.plain_steps import MultiplyAdd
from everbit.formats.exporters.onnx.builder import GraphBuilder
from everbit.formats.exporters.onnx.windows import Sides, add_border, pads, same_sides
from everbit.nn.binary import BinaryConv2d, BinaryLinear, BinaryWeight, LearnedBias, RPReLU
from everbit.nn.estimators import binarize


def convolution(build: GraphBuilder, node: fx.Node) -> None:
    """A convolution with real weights."""
    module = build.module(node)
    assert isinstance(module, nn.Conv2d)
    if module.padding_mode != "zeros":
        raise build.error(node, f"pads by {module.padding_mode}")
    inputs = [build.read(node), build.weight(node, "weight", module.weight)]
    if module.bias is not None:
        inputs.append(build.weight(node, "bias", module.bias))
    build.values[node] = build.step(
        node,
        "Conv",
        inputs,
        strides=list(module.stride),
        dilations=list(module.dilation),
        group=module.groups,
        pads=pads(_sides(module)),
    )


def _sides(module: nn.Conv2d) -> Sides:
    """Border of a convolution: PyTorch's "same" has stride 1 and puts what is odd below and right."""
    if module.padding == "valid":
        return (0, 0), (0, 0)
    if module.padding == "same":
        totals = [dilation * (length - 1) for dilation, length in zip(module.dilation, module.kernel_size, strict=True)]
        return (totals[0] // 2, totals[0] - totals[0] // 2), (totals[1] // 2, totals[1] - totals[1] // 2)
    down, across = (int(length) for length in module.padding)
    return (down, down), (across, across)


def dense(build: GraphBuilder, node: fx.Node) -> None:
    """A dense layer with real weights, on rows."""
    module = build.module(node)
    assert isinstance(module, nn.Linear)
    inputs = [_row(build, node), build.weight(node, "weight", module.weight)]
    if module.bias is not None:
        inputs.append(build.weight(node, "bias", module.bias))
    build.values[node] = build.step(node, "Gemm", inputs, transB=1)


def _row(build: GraphBuilder, node: fx.Node) -> str:
    if len(build.input_shape(node)) != 2:
        raise build.error(node, "is a dense layer that reads no rows [N, F]")
    return build.read(node)


def binary_convolution(build: GraphBuilder, node: fx.Node) -> None:
    """A convolution with weights of +-alpha, with a border of 0, +1 or -1."""
    module = build.module(node)
    assert isinstance(module, BinaryConv2d)
    if isinstance(module.padding, str):
        sides = same_sides(build.input_shape(node), module.kernel_size, module.stride)
    else:
        sides = ((module.padding, module.padding),) * 2
    source, rest = add_border(build, node, build.read(node), sides, float(module.pad_value))
    weight = _binary_weight(build, node, module)
    strides = [module.stride] * 2
    build.values[node] = build.step(node, "Conv", [source, weight], strides=strides, pads=pads(rest))


def binary_dense(build: GraphBuilder, node: fx.Node) -> None:
    """A dense layer with weights of +-alpha, on rows."""
    module = build.module(node)
    assert isinstance(module, BinaryLinear)
    inputs = [_row(build, node), _binary_weight(build, node, module)]
    build.values[node] = build.step(node, "Gemm", inputs, transB=1)


def _binary_weight(build: GraphBuilder, node: fx.Node, module: BinaryWeight) -> str:
    """sign(weight) * alpha: the signs as int8, a quarter of a float's bytes, and alpha where it is not 1."""
    signs = build.weight(node, "signs", binarize(module.weight.detach()).to(torch.int8))
    weight = build.step(node, "Cast", [signs], "signs", to=TensorProto.FLOAT)
    alpha = module.alpha()
    if bool((alpha == 1).all()):
        return weight
    by_output = build.weight(node, "alpha", alpha.view(-1, *[1] * (module.weight.dim() - 1)))
    return build.step(node, "Mul", [weight, by_output], "weight")


def batch_norm(build: GraphBuilder, node: fx.Node) -> None:
    """A batch norm with the statistics it holds."""
    module = build.module(node)
    assert isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d))
    mean, variance = module.running_mean, module.running_var
    if mean is None or variance is None:
        raise build.error(node, "keeps no statistics")
    gamma = module.weight if module.affine else torch.ones_like(mean)
    beta = module.bias if module.affine else torch.zeros_like(mean)
    parts = {"weight": gamma, "bias": beta, "running_mean": mean, "running_var": variance}
    inputs = [build.read(node), *(build.weight(node, part, values) for part, values in parts.items())]
    build.values[node] = build.step(node, "BatchNormalization", inputs, epsilon=float(module.eps))


def learned_bias(build: GraphBuilder, node: fx.Node) -> None:
    """One number added to each channel."""
    module = build.module(node)
    assert isinstance(module, LearnedBias)
    bias = build.weight(node, "bias", _per_channel(module.bias))
    build.values[node] = build.step(node, "Add", [build.read(node), bias])


def multiply_add(build: GraphBuilder, node: fx.Node) -> None:
    """x * factor + offset, by channel."""
    module = build.module(node)
    assert isinstance(module, MultiplyAdd)
    by_channel = (-1, *[1] * (len(build.input_shape(node)) - 2))
    factor, offset = (
        build.weight(node, part, values.view(by_channel))
        for part, values in (("factor", module.factor), ("offset", module.offset))
    )
    scaled = build.step(node, "Mul", [build.read(node), factor], "scaled")
    build.values[node] = build.step(node, "Add", [scaled, offset])


def rprelu(build: GraphBuilder, node: fx.Node) -> None:
    """Bias, PReLU, bias."""
    module = build.module(node)
    assert isinstance(module, RPReLU)
    before, slope, after = (
        build.weight(node, part, _per_channel(values))
        for part, values in (("bias_in", module.bias_in), ("slope", module.slope), ("bias_out", module.bias_out))
    )
    moved = build.step(node, "Add", [build.read(node), before], "moved")
    bent = build.step(node, "PRelu", [moved, slope], "bent")
    build.values[node] = build.step(node, "Add", [bent, after])


def _per_channel(values: Tensor) -> Tensor:
    return values.view(-1, 1, 1)
