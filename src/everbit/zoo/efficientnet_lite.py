"""EfficientNet-Lite0: inverted residuals without squeeze-and-excitation, ReLU6 (docs/method.md, section 3)."""

from __future__ import annotations

from torch import nn

from everbit.zoo.mobile_blocks import InvertedResidual, add_head, conv_norm, scaled_in_eights
from everbit.zoo.stem import stem_stride

STEM_FILTERS, LAST_FILTERS = 32, 1280  # at any width
# Expansion, kernel, filters at width 1, number of blocks, stride of the first.
STAGES = (
    (1, 3, 16, 1, 1),
    (6, 3, 24, 2, 2),
    (6, 5, 40, 2, 2),
    (6, 3, 80, 3, 2),
    (6, 5, 112, 3, 1),
    (6, 5, 192, 4, 2),
    (6, 3, 320, 1, 1),
)
EPSILON = 1e-3
DROPOUT = 0.2


def efficientnet_lite0(width: float = 1.0, classes: int = 1000, stem: str = "imagenet") -> nn.Sequential:
    """EfficientNet-Lite0: stem, block1 .. block16, last 1x1, pool, linear head; 4,652,008 parameters at width 1.

    That is with 1000 classes. Borders are TensorFlow's. Input [N, 3, H, W] float, images/127.5 - 1; output logits
    [N, classes].
    """
    network = nn.Sequential()
    network.add_module("stem", conv_norm(3, STEM_FILTERS, 3, stem_stride(stem), same=True, epsilon=EPSILON))
    channels = STEM_FILTERS
    blocks = [(e, k, f, stride if n == 0 else 1) for e, k, f, count, stride in STAGES for n in range(count)]
    for index, (expansion, kernel, filters, stride) in enumerate(blocks, start=1):
        outputs = scaled_in_eights(filters, width)
        block = InvertedResidual(channels, outputs, expansion, stride, kernel, same=True, epsilon=EPSILON)
        network.add_module(f"block{index}", block)
        channels = outputs
    network.add_module("last", conv_norm(channels, LAST_FILTERS, 1, epsilon=EPSILON))
    add_head(network, LAST_FILTERS, classes, DROPOUT)
    return network
