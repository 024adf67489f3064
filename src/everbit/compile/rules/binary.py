"""Layers with binary weights, and the signs in front of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch import fx

from everbit.compile.lowering import Border, ByChannel, Lowering, RealWeights, channels_last, floats, named_scale
from everbit.compile.operations import ESTIMATORS
from everbit.compile.program import Parameter, Tensor
from everbit.compile.rules.real import exact_sums, frozen_or_deferred
from everbit.compile.rules.thresholds import thresholds
from everbit.compile.rules.windows import binary_border, kernel_attributes, window
from everbit.compile.trace import module_path
from everbit.nn.binary import BinaryConv2d, BinaryLinear, BinaryWeight, LearnedBias, Sign
from everbit.packed_weights import pack_binary_weights
from everbit.quantize.scale import Floats

U_FRACTION = 16
"""Bits behind the point of the real value before a sign or an RPReLU."""


def binary_layer(low: Lowering, node: fx.Node) -> None:
    """A binary convolution or dense layer: exact integer sums; the scale of its channels waits for the batch norm.

    In the frozen part it may read real values, as the first layer of BinaryNet does.
    """
    module = low.module(node)
    assert isinstance(module, BinaryWeight)
    weight = floats(module.weight)
    if isinstance(module, BinaryLinear):
        weight = weight[:, :, np.newaxis, np.newaxis]
    signs = np.where(weight >= 0, 1.0, -1.0)
    alpha = floats(module.alpha())
    index, source = low.read(node, signs=True)
    if source.bits != 1:
        if node in low.learnable:
            raise low.error(node, "reads real values", "put a Sign in front of it")
        _frozen_on_real_values(low, node, signs, alpha)
        return
    if weight.shape[1] != source.channels:
        raise low.error(node, f"reads {source.channels} channels in another order", "flatten the map in front of it")
    kernel = (weight.shape[2], weight.shape[3])
    own = binary_border(source, module) if isinstance(module, BinaryConv2d) else Border(0, 0, 0.0)
    stride = module.stride if isinstance(module, BinaryConv2d) else 1
    attributes, pad_value = window(low, node, source, kernel, stride, own)
    if pad_value not in (-1, 0, 1):
        raise low.error(node, f"reads a border of {pad_value:g}", "pad signs with -1, 0 or +1")
    bits = channels_last(signs) > 0
    low.tensor[node] = low.builder.add(
        "binary_convolution",
        module_path(node),
        (index,),
        Tensor(*low.shape(node), 16),
        attributes={**kernel_attributes(kernel), **attributes, "pad_value": int(pad_value)},
        arrays={"bits": pack_binary_weights(bits.reshape(bits.shape[0], -1, bits.shape[-1]))},
        parameters={"weight": Parameter(np.array([round(low.magnitude * 2.0**31)], np.int32), 0)},
    )
    low.stands_for[node] = ByChannel(alpha, np.zeros_like(alpha))


def _frozen_on_real_values(low: Lowering, node: fx.Node, signs: Floats, alpha: Floats) -> None:
    """Weights of +-1 on the integers of a real tensor: their sums, exact where 32 bits hold them."""
    index, source = low.read(node)
    largest = signs[0].size * low.largest(index)
    weights = RealWeights(signs, np.zeros(len(signs)), 1)
    if source.bits == 32 or largest >= 2**30:
        frozen_or_deferred(low, node, replace(weights, weight=signs * alpha[:, None, None, None]))
        return
    target = Tensor(*low.shape(node), 16 if largest < 2**15 else 32, 0, source.scale)
    exact_sums(low, node, target, weights)
    low.stands_for[node] = ByChannel(alpha * source.scale, np.zeros_like(alpha))


def learned_bias(low: Lowering, node: fx.Node) -> None:
    """ReActNet's threshold: the sign behind it takes it over."""
    module = low.module(node)
    assert isinstance(module, LearnedBias)
    if not all(isinstance(low.module(user), Sign) for user in node.users):
        raise low.error(
            node, "is read by something other than a Sign", "use RPReLU, or a bias right in front of a Sign"
        )
    bias = floats(module.bias)
    if node in low.learnable:
        low.tensor[node] = low.read(node)[0]
        low.pending_bias[node] = bias
    else:
        low.tensor[node], before = low.by_channel(node, low.source(node))
        low.stands_for[node] = before.then(1.0, bias)


def sign(low: Lowering, node: fx.Node) -> None:
    """Real values to bits. In front of the cut all that moves the sign is its threshold."""
    if node not in low.learnable:
        index, stands_for = low.by_channel(node, low.source(node))
        threshold = thresholds(stands_for, low.builder.tensors[index].bits)
        _sign(low, node, index, {"threshold": threshold}, {})
        return
    index, source = low.read(node)
    bias = low.pending_bias.get(low.source(node))
    if bias is None:
        _sign(low, node, index, {"threshold": np.full(source.channels, source.zero_point, np.int32)}, {})
    else:
        _sign(low, node, index, {}, {"bias": low.parameter(bias, least=0)})


def _sign(
    low: Lowering,
    node: fx.Node,
    index: int,
    arrays: dict[str, NDArray[np.generic]],
    parameters: dict[str, Parameter],
) -> None:
    module, source = low.module(node), low.builder.tensors[index]
    assert isinstance(module, Sign)
    low.tensor[node] = low.builder.add(
        "sign",
        module_path(node),
        (index,),
        replace(source, bits=1, zero_point=0, scale=1.0),
        attributes={
            "estimator": ESTIMATORS.index(module.estimator),
            "clip": round(module.clip * 2**U_FRACTION),
            **named_scale("input", source.scale * 2.0**U_FRACTION),
        },
        arrays=arrays,
        parameters=parameters,
    )
