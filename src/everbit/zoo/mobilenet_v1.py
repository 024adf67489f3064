"""MobileNetV1: depthwise and 1x1 convolutions in turn, ordinary weights (docs/method.md, section 3)."""

from __future__ import annotations

from torch import nn

from everbit.zoo.mobile_blocks import add_head, conv_norm
from everbit.zoo.stem import scaled, stem_stride

STEM_FILTERS = 32  # at width 1
# Filters at width 1 and stride of the blocks.
BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))
DROPOUT = 0.001


def _block(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    """Depthwise 3x3 and 1x1, each with batch norm and ReLU6: [N, in, H, W] -> [N, out, H/stride, W/stride]."""
    block = nn.Sequential()
    block.add_module("depthwise", conv_norm(inputs, inputs, 3, stride, groups=inputs))
    block.add_module("pointwise", conv_norm(inputs, outputs, 1))
    return block


def mobilenet_v1(width: float = 1.0, classes: int = 1000, stem: str = "imagenet") -> nn.Sequential:
    """MobileNetV1: stem, block1 .. block13, pool, linear head; 4,231,976 parameters at width 1, 1000 classes.

    Input [N, 3, H, W] float, images/127.5 - 1; output logits [N, classes].
    """
    network = nn.Sequential()
    channels = scaled(STEM_FILTERS, width)
    network.add_module("stem", conv_norm(3, channels, 3, stem_stride(stem)))
    for index, (filters, stride) in enumerate(BLOCKS, start=1):
        outputs = scaled(filters, width)
        network.add_module(f"block{index}", _block(channels, outputs, stride))
        channels = outputs
    add_head(network, channels, classes, DROPOUT)
    return network
