"""The image and what rounds it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from torch import fx

from everbit.compile.lowering import Lowering
from everbit.compile.program import Tensor
from everbit.compile.rules.thresholds import NOTHING
from everbit.compile.trace import module_path
from everbit.nn.quantize import FloorQuantize
from everbit.quantize.scale import NARROW

IMAGE_STEPS = 255
"""Bytes u stand for (2 u - 255) / 255."""


def image(low: Lowering, node: fx.Node, shape: tuple[int, ...]) -> None:
    """Bytes u to 2 u - 255, which is 255 (u / 127.5 - 1), exactly. shape: [N, H, W, C] of the calibration images."""
    _, height, width, channels = shape
    target = Tensor(height, width, channels, 16, 0, 1 / IMAGE_STEPS)
    offset = np.full(channels, IMAGE_STEPS, np.int16)
    index = low.builder.add("input", node.name, (), target, arrays={"offset": offset})
    low.tensor[node], low.reach[index] = index, IMAGE_STEPS


def floor_quantize(low: Lowering, node: fx.Node) -> None:
    """The image rounded down, exactly for every byte."""
    module, source = low.module(node), low.source(node)
    assert isinstance(module, FloorQuantize)
    while isinstance(low.module(source), NOTHING):
        source = low.source(source)
    if source.op != "placeholder" or node in low.learnable:
        raise low.error(node, "rounds what is no frozen image", "put it on the network's input, in front of the cut")
    index, tensor = low.read(node)
    q, levels = 2 * np.arange(256) - IMAGE_STEPS, 2**module.bits
    shift = int(math.log2(NARROW.factor * IMAGE_STEPS)) - module.bits
    factor = round(levels * 2**shift / IMAGE_STEPS)
    # What every byte leaves to the offset where rounding to nearest, halves away from 0, is to give what is below.
    below = q * levels // IMAGE_STEPS
    left, half = below * 2**shift - q * factor, 2 ** (shift - 1)
    least, most = int((left - half + (below <= 0)).max()), int((left + half - (below >= 0)).min())
    if least > most:
        raise low.error(node, f"keeps {module.bits} bits, more than the bytes of an image have", "keep at most 8")
    constants = (("A", factor, np.int16), ("B", (least + most) // 2, np.int32), ("s", shift, np.uint8))
    target = Tensor(tensor.height, tensor.width, tensor.channels, 16, 0, 1 / levels)
    arrays: dict[str, NDArray[np.generic]] = {
        name: np.full(tensor.channels, value, dtype) for name, value, dtype in constants
    }
    made = low.builder.add("affine", module_path(node), (index,), target, arrays=arrays)
    low.tensor[node], low.reach[made] = made, levels
