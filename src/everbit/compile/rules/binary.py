"""Layers with binary weights, and the signs in front of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from torch import fx

from everbit.compile.image import pack_binary_weights
from everbit.compile.lowering import Border, Lowering, RealWeights, channels_last, floats, named_scale
from everbit.compile.operations import ESTIMATORS
from everbit.compile.program import Parameter, Tensor
from everbit.compile.rules.real import frozen_or_deferred
from everbit.compile.rules.windows import binary_border, kernel_attributes, window
from everbit.compile.trace import module_path
from everbit.nn.binary import BinaryConv2d, BinaryLinear, BinaryWeight, LearnedBias, Sign

U_FRACTION = 16
"""Bits behind the point of the real value before a sign or an RPReLU."""


def binary_layer(low: Lowering, node: fx.Node) -> None:
    """A binary convolution or dense layer: exact integer sums; the scale of its channels waits for the batch norm.

    In the frozen part it may read real values, as the first layer of BinaryNet does: a layer with real weights then.
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
        weights = RealWeights(signs * alpha[:, None, None, None], np.zeros(len(weight)), 1)
        frozen_or_deferred(low, node, weights)
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
    low.channel_scale[node] = alpha


def learned_bias(low: Lowering, node: fx.Node) -> None:
    """ReActNet's threshold: the sign behind it takes it over."""
    module = low.module(node)
    assert isinstance(module, LearnedBias)
    if not all(isinstance(low.module(user), Sign) for user in node.users):
        raise low.error(
            node, "is read by something other than a Sign", "use RPReLU, or a bias right in front of a Sign"
        )
    low.tensor[node] = low.read(node)[0]
    low.pending_bias[node] = floats(module.bias)


def sign(low: Lowering, node: fx.Node) -> None:
    """Real values to bits. A learned bias is a parameter behind the cut, a threshold in front of it."""
    module = low.module(node)
    assert isinstance(module, Sign)
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
            "estimator": ESTIMATORS.index(module.estimator),
            "clip": round(module.clip * 2**U_FRACTION),
            **named_scale("input", source.scale * 2.0**U_FRACTION),
        },
        arrays={} if learns else {"threshold": np.clip(threshold, -(2**31), 2**31 - 1).astype(np.int32)},
        parameters={"bias": low.parameter(moved, least=0)} if learns else {},
    )
