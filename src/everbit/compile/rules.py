"""Lowering rules, one a layer: how a step of the torch graph becomes layers of the program.

docs/arithmetic.md, section 3, says what those layers compute.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from torch import fx, nn

from everbit.compile.image import pack_binary_weights
from everbit.compile.lowering import Lowering, channels_last, floats, named_scale, pair
from everbit.compile.operations import ESTIMATORS
from everbit.compile.program import Parameter, Tensor
from everbit.compile.trace import module_path
from everbit.nn.binary import LATENT_CLIP, BinaryConv2d, LearnedBias, RPReLU, Sign
from everbit.quantize.scale import NARROW, WIDE, Floats, affine_of, scale_of

Rule = Callable[[Lowering, fx.Node], None]

U_FRACTION = 16  # bits behind the point of the real value before a sign or an RPReLU
XHAT_FRACTION = 11  # of a normalised activation


def _window(low: Lowering, node: fx.Node, module: nn.Conv2d | BinaryConv2d) -> dict[str, int]:
    """Kernel, stride and padding of a convolution, as the engine takes them."""
    stride = pair(module.stride)
    padding = pair(module.padding) if not isinstance(module.padding, str) else (-1, -1)
    if (
        stride[0] != stride[1]
        or padding[0] != padding[1]
        or padding[0] < 0
        or pair(getattr(module, "dilation", 1)) != (1, 1)
    ):
        raise low.error(
            node, "has different strides or paddings by axis, or dilation", "use one number for each, and no dilation"
        )
    groups = getattr(module, "groups", 1)
    if groups != 1:
        raise low.error(node, f"has {groups} groups", "use a convolution without groups")
    height, width = pair(module.kernel_size)
    return {"kernel_height": height, "kernel_width": width, "stride": stride[0], "padding": padding[0]}


def _batch_norm_reader(node: fx.Node, low: Lowering) -> fx.Node | None:
    """The batch norm that alone reads a node, if there is one."""
    users = list(node.users)
    if len(users) == 1 and users[0].op == "call_module" and isinstance(low.module(users[0]), nn.BatchNorm2d):
        return users[0]
    return None


def convolution(low: Lowering, node: fx.Node) -> None:
    """A convolution with real weights. In the frozen part a batch norm behind it folds into it."""
    module = cast(nn.Conv2d, low.module(node))
    if node in low.learnable:
        _learnable_convolution(low, node, module)
        return
    reader = _batch_norm_reader(node, low)
    if reader not in low.frozen_batch_norms:
        bias = floats(module.bias) if module.bias is not None else np.zeros(module.out_channels)
        target = low.activation(node) if reader is None else low.raw(node)  # the cut stands between the two
        _frozen_convolution(low, node, node, target, floats(module.weight), bias)


def _frozen_convolution(
    low: Lowering, node: fx.Node, output: fx.Node, target: Tensor, weight: Floats, bias: Floats
) -> None:
    module = cast(nn.Conv2d, low.module(node))
    index, source = low.read(node)
    # A channel whose weights nearly vanish keeps a step that leaves room for its bias in 32 bits.
    step = np.maximum(np.abs(weight).max(axis=(1, 2, 3)) / 127, np.abs(bias) / (source.scale * 2.0**30))
    step = np.maximum(step, 1e-30)
    integers = np.round(weight / step[:, None, None, None]).astype(np.int8)
    multipliers = [scale_of(source.scale * s / target.scale) for s in step]
    low.tensor[output] = low.builder.add(
        "convolution",
        module_path(output),
        (index,),
        target,
        attributes={**_window(low, node, module), "input_mantissa": 0, "input_exponent": 0},
        arrays={
            "weight": channels_last(integers),
            "bias": np.round(bias / (source.scale * step)).astype(np.int32),
            "multiplier_mantissa": np.array([m for m, _ in multipliers], np.int32),
            "multiplier_exponent": np.array([e for _, e in multipliers], np.int8),
        },
    )


def _learnable_convolution(low: Lowering, node: fx.Node, module: nn.Conv2d) -> None:
    reader = _batch_norm_reader(node, low)
    if reader is None:
        raise low.error(
            node, "learns, but no batch norm alone reads it", "put a BatchNorm2d behind it, or cut the network later"
        )
    index, source = low.read(node)
    target = low.raw(node)
    weight = low.parameter(channels_last(floats(module.weight)), least=-4)
    mantissa, exponent = scale_of(source.scale * 2.0 ** (weight.range_exponent - 7) / target.scale)
    low.tensor[node] = low.builder.add(
        "convolution",
        module_path(node),
        (index,),
        target,
        attributes={**_window(low, node, module), **named_scale("input", source.scale)},
        arrays={
            "multiplier_mantissa": np.array([mantissa], np.int32),
            "multiplier_exponent": np.array([exponent], np.int8),
        },
        parameters={"weight": weight},
    )


def binary_convolution(low: Lowering, node: fx.Node) -> None:
    """A binary convolution: exact integer sums; the scale of its channels waits for the batch norm."""
    module = cast(BinaryConv2d, low.module(node))
    index, source = low.read(node)
    if source.bits != 1:
        raise low.error(node, "reads real values", "put a Sign in front of it")
    if module.pad_value not in (0, 1):
        raise low.error(node, f"pads with {module.pad_value}", "the engine pads with 0 or +1")
    bits = channels_last(floats(module.weight)) >= 0
    low.tensor[node] = low.builder.add(
        "binary_convolution",
        module_path(node),
        (index,),
        Tensor(*low.shape(node), 16),
        attributes={**_window(low, node, module), "pad_value": module.pad_value},
        arrays={"bits": pack_binary_weights(bits.reshape(bits.shape[0], -1, bits.shape[-1]))},
        parameters={"weight": Parameter(np.array([round(low.magnitude * 2.0**31)], np.int32), 0)},
    )
    low.channel_scale[node] = floats(module.alpha())


def batch_norm(low: Lowering, node: fx.Node) -> None:
    """A batch norm.

    Frozen: one multiply-add a channel, folded into a real convolution before it. Learnable: xhat, then gamma and beta.
    """
    module, source = cast(nn.BatchNorm2d, low.module(node)), low.source(node)
    gamma = floats(module.weight) if module.affine else np.ones(module.num_features)
    beta = floats(module.bias) if module.affine else np.zeros(module.num_features)
    mean, variance = low.calibration.statistics.get(node) or (floats(module.running_mean), floats(module.running_var))
    sigma = np.sqrt(variance + module.eps)
    if node in low.learnable:
        _learnable_batch_norm(low, node, gamma, beta, mean, sigma)
        return
    if source.op == "call_module" and type(low.module(source)) is nn.Conv2d and source not in low.tensor:
        convolved = cast(nn.Conv2d, low.module(source))
        bias = floats(convolved.bias) if convolved.bias is not None else 0.0
        factor = gamma / sigma
        weight = floats(convolved.weight) * factor[:, None, None, None]
        _frozen_convolution(low, source, node, low.activation(node), weight, beta + (bias - mean) * factor)
        return
    index, unit, zero_point = _normalised_input(low, node)
    target = low.activation(node)
    a = unit * gamma / (sigma * target.scale)
    b = (beta - mean * gamma / sigma) / target.scale - a * zero_point
    wide = 32 in (target.bits, low.builder.tensors[index].bits)
    A, B, s = affine_of(a, b, WIDE if wide else NARROW)
    low.tensor[node] = low.builder.add("affine", module_path(node), (index,), target, arrays={"A": A, "B": B, "s": s})


def _normalised_input(low: Lowering, node: fx.Node) -> tuple[int, Floats | float, int]:
    """What a batch norm reads: tensor, real value of one step (by channel behind a binary convolution), zero point."""
    source = low.source(node)
    if source in low.channel_scale:
        return low.tensor[source], low.channel_scale[source], 0
    index, tensor = low.read(node)
    return index, tensor.scale, tensor.zero_point


def _learnable_batch_norm(
    low: Lowering, node: fx.Node, gamma: Floats, beta: Floats, mean: Floats, sigma: Floats
) -> None:
    index, unit, zero_point = _normalised_input(low, node)
    source = low.source(node)
    input_exponent = 0
    if source not in low.channel_scale:
        mantissa, exponent = np.frexp(unit)
        if mantissa != 0.5:
            raise low.error(
                node, "learns, but no convolution that learns stands before it", "cut right after it, or further ahead"
            )
        input_exponent = int(exponent) - 1
        mean = mean - (_bias_before(low, source) if source in low.learnable else 0.0)
    a = unit / sigma * 2.0**XHAT_FRACTION
    A, B, s = affine_of(a, -mean / sigma * 2.0**XHAT_FRACTION - a * zero_point)
    target = low.activation(node)
    parameters = {"gamma": low.parameter(gamma, least=0), "beta": low.parameter(beta, least=0)}
    real = 2.0 ** (parameters["gamma"].range_exponent - 15 - XHAT_FRACTION) / target.scale
    low.tensor[node] = low.builder.add(
        "batch_norm",
        module_path(node),
        (index,),
        target,
        attributes={**named_scale("output", real), "input_exponent": input_exponent},
        arrays={"A": A, "B": B, "s": s},
        parameters=parameters,
    )


def _bias_before(low: Lowering, source: fx.Node) -> Floats | float:
    """The constant bias of the convolution before a learnable batch norm: it only moves the mean."""
    module = low.module(source)
    bias = getattr(module, "bias", None)
    return 0.0 if bias is None else floats(bias)


def learned_bias(low: Lowering, node: fx.Node) -> None:
    """ReActNet's threshold: the sign behind it takes it over."""
    if not all(user.op == "call_module" and isinstance(low.module(user), Sign) for user in node.users):
        raise low.error(
            node, "is read by something other than a Sign", "use RPReLU, or a bias right in front of a Sign"
        )
    low.tensor[node] = low.read(node)[0]
    low.pending_bias[node] = floats(low.module(node).bias)


def sign(low: Lowering, node: fx.Node) -> None:
    """Real values to bits. A learned bias is a parameter behind the cut, a threshold in front of it."""
    index, source = low.read(node)
    bias = low.pending_bias.get(low.source(node))
    learns = bias is not None and node in low.learnable
    moved = np.zeros(source.channels) if bias is None else bias
    threshold = np.ceil(source.zero_point - moved / source.scale - 1e-9)
    low.tensor[node] = low.builder.add(
        "sign",
        module_path(node),
        (index,),
        replace(source, bits=1, zero_point=0, scale=1.0),
        attributes={
            "estimator": ESTIMATORS.index(low.module(node).estimator),
            "clip": round(LATENT_CLIP * 2**U_FRACTION),
            **named_scale("input", source.scale * 2.0**U_FRACTION),
        },
        arrays={} if learns else {"threshold": np.clip(threshold, -(2**31), 2**31 - 1).astype(np.int32)},
        parameters={"bias": low.parameter(moved, least=0)} if learns else {},
    )


def add(low: Lowering, node: fx.Node) -> None:
    """A shortcut meets its branch."""
    (first, a), (second, b) = low.read(node, 0), low.read(node, 1)
    target = low.activation(node)
    factors = np.array([a.scale, b.scale]) / target.scale
    wide = 32 in (a.bits, b.bits, target.bits)
    most, most_shift = (2**30 - 1, 61) if wide else (2**13 - 1, 29)
    shift = int(np.clip(np.floor(np.log2(most / factors.max())), 0, most_shift))
    A0, A1 = (int(v) for v in np.round(factors * 2.0**shift))
    # A wide sum takes the zero points off by itself.
    offset = 0 if wide else -(A0 * a.zero_point + A1 * b.zero_point)
    attributes = {"A0": A0, "A1": A1, "B": offset, "s": shift}
    low.tensor[node] = low.builder.add("add", module_path(node), (first, second), target, attributes=attributes)


def rprelu(low: Lowering, node: fx.Node) -> None:
    """Bias, PReLU, bias."""
    index, source = low.read(node)
    module, target = low.module(node), low.activation(node)
    low.tensor[node] = low.builder.add(
        "rprelu",
        module_path(node),
        (index,),
        target,
        attributes={
            **named_scale("input", source.scale * 2.0**U_FRACTION),
            **named_scale("output", 2.0**-U_FRACTION / target.scale),
        },
        parameters={
            "pre": low.parameter(floats(module.bias_in), least=0),
            "slope": low.parameter(floats(module.slope), least=0),
            "post": low.parameter(floats(module.bias_out), least=0),
        },
    )


def _pool(low: Lowering, node: fx.Node, kind: str, attributes: dict[str, int]) -> None:
    """A pool keeps the numbers of its input, also the exact sums of a binary convolution."""
    source = low.source(node)
    if source in low.channel_scale:
        low.channel_scale[node] = low.channel_scale[source]
    index = low.tensor[source] if source in low.channel_scale else low.read(node)[0]
    height, width, _ = low.shape(node)
    target = replace(low.builder.tensors[index], height=height, width=width)
    low.tensor[node] = low.builder.add(kind, module_path(node), (index,), target, attributes=attributes)


def average_pool(low: Lowering, node: fx.Node) -> None:
    """Mean over windows that do not overlap."""
    module = cast(nn.AvgPool2d, low.module(node))
    kernel, stride = pair(module.kernel_size), pair(module.stride)
    if kernel[0] != kernel[1] or stride != kernel or pair(module.padding) != (0, 0) or module.ceil_mode:
        raise low.error(node, "has overlapping or padded windows", "use AvgPool2d(k) with stride k and no padding")
    _pool(low, node, "average_pool", {"kernel": kernel[0]})


def max_pool(low: Lowering, node: fx.Node) -> None:
    """Maximum over windows, which may overlap."""
    module = cast(nn.MaxPool2d, low.module(node))
    kernel, stride, padding = pair(module.kernel_size), pair(module.stride), pair(module.padding)
    if (
        kernel[0] != kernel[1]
        or stride[0] != stride[1]
        or padding[0] != padding[1]
        or pair(module.dilation) != (1, 1)
        or module.ceil_mode
    ):
        raise low.error(
            node, "differs by axis, is dilated or rounds its size up", "use one number for kernel, stride and padding"
        )
    _pool(low, node, "max_pool", {"kernel": kernel[0], "stride": stride[0], "padding": padding[0]})


def global_average_pool(low: Lowering, node: fx.Node) -> None:
    """Mean over the whole map."""
    module = cast(nn.AdaptiveAvgPool2d, low.module(node))
    if module.output_size not in (1, (1, 1)):
        raise low.error(node, "pools to more than one place", "use AdaptiveAvgPool2d(1)")
    index, source = low.read(node)
    target = low.activation(node)
    real = source.scale / (source.height * source.width * target.scale)
    low.tensor[node] = low.builder.add(
        "global_average_pool", module_path(node), (index,), target, attributes=named_scale("multiplier", real)
    )


def same(low: Lowering, node: fx.Node) -> None:
    """Steps that change nothing when a network runs: identity, dropout, flatten in front of the head."""
    source = low.source(node)
    low.tensor[node] = low.tensor[source]
    for notes in (low.channel_scale, low.pending_bias):
        if source in notes:
            notes[node] = notes[source]


MODULE_RULES: dict[type[nn.Module], Rule] = {
    nn.Conv2d: convolution,
    BinaryConv2d: binary_convolution,
    nn.BatchNorm2d: batch_norm,
    LearnedBias: learned_bias,
    Sign: sign,
    RPReLU: rprelu,
    nn.AvgPool2d: average_pool,
    nn.MaxPool2d: max_pool,
    nn.AdaptiveAvgPool2d: global_average_pool,
    nn.Flatten: same,
    nn.Identity: same,
    nn.Dropout: same,
}
FUNCTION_RULES: dict[object, Rule] = {operator.add: add, operator.iadd: add, torch.add: add, torch.flatten: same}


def lower(low: Lowering, node: fx.Node) -> None:
    """Applies the rule of a node. Raises CompileError, naming the module, where there is none."""
    if node.op == "call_module":
        module = low.module(node)
        rule = MODULE_RULES.get(type(module))
        what = type(module).__name__
    else:
        rule = FUNCTION_RULES.get(node.target) if node.op == "call_function" else None
        what = f"{node.op} {getattr(node.target, '__name__', node.target)}"
    if rule is None:
        supported = sorted({m.__name__ for m in MODULE_RULES} | {"add"})
        raise low.error(node, f"{what} has no lowering rule", f"use {', '.join(supported)}")
    rule(low, node)
