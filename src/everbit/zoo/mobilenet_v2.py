"""MobileNetV2: inverted residuals with ordinary weights (docs/method.md, section 3)."""

from __future__ import annotations

from torch import nn

from everbit.zoo.mobile_blocks import InvertedResidual, add_head, conv_norm, scaled_in_eights
from everbit.zoo.stem import stem_stride

STEM_FILTERS = 32  # at width 1
# Expansion, filters at width 1, number of blocks, stride of the first.
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
LAST_FILTERS = 1280  # at any width up to 1
DROPOUT = 0.2


def mobilenet_v2(width: float = 1.0, classes: int = 1000, stem: str = "imagenet") -> nn.Sequential:
    """MobileNetV2: stem, block1 .. block17, last 1x1, pool, linear head; 3,504,872 parameters at width 1, 1000 classes.

    Input [N, 3, H, W] float, images/127.5 - 1; output logits [N, classes].
    """
    network = nn.Sequential()
    channels = scaled_in_eights(STEM_FILTERS, width)
    network.add_module("stem", conv_norm(3, channels, 3, stem_stride(stem)))
    blocks = [(e, f, stride if n == 0 else 1) for e, f, count, stride in STAGES for n in range(count)]
    for index, (expansion, filters, stride) in enumerate(blocks, start=1):
        outputs = scaled_in_eights(filters, width)
        network.add_module(f"block{index}", InvertedResidual(channels, outputs, expansion, stride))
        channels = outputs
    features = scaled_in_eights(LAST_FILTERS, max(1.0, width))
    network.add_module("last", conv_norm(channels, features, 1))
    add_head(network, features, classes, DROPOUT)
    return network
