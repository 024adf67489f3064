"""Steps of the frozen part that move nothing but the thresholds of the signs behind them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch import fx, nn

from everbit.compile.clamps import clamp_bounds
from everbit.compile.lowering import BATCH_NORMS, ByChannel, Lowering
from everbit.compile.trace import module_path
from everbit.nn.binary import BinaryWeight, LearnedBias, Sign
from everbit.packed_weights import pack_binary_weights, unpack_binary_weights
from everbit.quantize.scale import NARROW, WIDE, Floats

NOTHING = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout)
"""Modules that change nothing when a network runs."""

_KEEP_ORDER = (*NOTHING, nn.Flatten, nn.MaxPool2d, nn.AdaptiveMaxPool2d)
_TIE = 1e-11  # of a threshold: what float64 may be off where integers meet it exactly


def leads_to_signs(low: Lowering, node: fx.Node, biased: bool = True) -> bool:
    """Whether only frozen signs read a node, at once or through steps that never fall as their input grows, or norms.

    A clamp around 0 changes no sign, unless a bias moves it afterwards. biased: whether biases may stand on the way.
    """

    def leads(user: fx.Node) -> bool:
        module, bounds = low.module(user), clamp_bounds(low.graph, user)
        if user in low.learnable:
            return False
        if bounds is not None:
            return bounds[0] < 0 <= bounds[1] and leads_to_signs(low, user, False)
        if isinstance(module, _KEEP_ORDER) or (biased and isinstance(module, BATCH_NORMS)):
            return leads_to_signs(low, user, biased)
        return isinstance(module, Sign) or (biased and isinstance(module, LearnedBias))

    return len(node.users) > 0 and all(map(leads, node.users))


def thresholds(stands_for: ByChannel, bits: int) -> NDArray[np.int32]:
    """The least integers q of `bits` bits with factor * q + offset >= 0; one beyond the largest where there is none."""
    least, beyond = -(2 ** (bits - 1)), min(2 ** (bits - 1), 2**31 - 1)
    factor, offset = stands_for.factor, stands_for.offset
    real = np.divide(-offset, factor, out=np.zeros_like(factor), where=factor > 0)
    met = np.clip(np.ceil(real - _TIE * np.maximum(1, np.abs(real))), least, beyond)
    clamped: NDArray[np.int32] = np.where(factor > 0, met, np.where(offset >= 0, least, beyond)).astype(np.int32)
    return clamped


def taken_by_signs(low: Lowering, node: fx.Node, factor: Floats, offset: Floats) -> bool:
    """Leaves factor * x + offset, by channel, to the thresholds of the signs behind a node, if only signs read it.

    x: what the node reads. Where the factor is negative, integers turn to their opposites: for sums of a layer with
    binary weights that nothing else reads by the opposite weights, else by a layer of its own.
    """
    if not leads_to_signs(low, node):
        return False
    source = low.source(node)
    index, before = low.by_channel(node, source)
    if (factor < 0).any():
        turn = _turn_weights if _is_sums_for_one(low, source) else _turn_values
        index = turn(low, node, index, factor < 0)
    low.tensor[node] = index
    low.stands_for[node] = ByChannel(before.factor * np.abs(factor), before.offset * factor + offset)
    return True


def _is_sums_for_one(low: Lowering, node: fx.Node) -> bool:
    """Whether a node is a layer with binary weights, or nothing but it, and one node alone reads it."""
    while isinstance(low.module(node), NOTHING) and len(node.users) == 1:
        node = low.source(node)
    return isinstance(low.module(node), BinaryWeight) and len(node.users) == 1 and node in low.stands_for


def _turn_weights(low: Lowering, node: fx.Node, index: int, channels: NDArray[np.bool_]) -> int:
    """Gives some output channels of the layer that makes tensor `index` the opposite weights."""
    tensors, layers = low.builder.tensors, low.builder.layers
    position = next(i for i, layer in enumerate(layers) if layer.output == index)
    layer = layers[position]
    arrays = dict(layer.arrays)
    if layer.kind == "binary_convolution":
        taps = layer.attributes["kernel_height"] * layer.attributes["kernel_width"]
        packed = arrays["bits"].astype(np.uint64)
        bits = unpack_binary_weights(packed, len(channels), taps, tensors[layer.inputs[0]].channels)
        arrays["bits"] = pack_binary_weights(bits ^ channels[:, None, None])
    else:
        weight = arrays["weight"].astype(np.int8)
        arrays["weight"] = np.where(channels[:, None, None, None], -weight, weight)
    layers[position] = replace(layer, arrays=arrays)
    return index


def _turn_values(low: Lowering, node: fx.Node, index: int, channels: NDArray[np.bool_]) -> int:
    """A tensor like `index`, -q instead of q in some channels; 16 bits at least, which hold the opposite of -128."""
    tensor = low.builder.tensors[index]
    target = replace(tensor, bits=max(tensor.bits, 16), zero_point=0)
    dtypes = (WIDE if target.bits == 32 else NARROW).dtypes
    nothing = np.zeros(len(channels))
    arrays: dict[str, NDArray[np.generic]] = {
        "A": np.where(channels, -1, 1).astype(dtypes[0]),
        "B": nothing.astype(dtypes[1]),
        "s": nothing.astype(np.uint8),
    }
    return low.builder.add("affine", module_path(node), (index,), target, arrays=arrays)
