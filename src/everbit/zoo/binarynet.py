"""BinaryNet: six binary convolutions and three binary dense layers (docs/method.md, section 3)."""

from __future__ import annotations

from torch import nn

from everbit.zoo.binary_chain import binary_chain
from everbit.zoo.cuts import NETWORKS
from everbit.zoo.stem import scaled

# Filters at width 1 of the convolutions, and whether a 2x2 max pool follows.
CONVOLUTIONS = ((128, False), (128, True), (256, False), (256, True), (512, False), (512, True))
DENSE = (1024, 1024)  # features of the dense layers at width 1


def binarynet(width: float = 1.0, classes: int = 10) -> nn.Sequential:
    """BinaryNet; 14,022,016 binary weights at width 1 with 10 classes."""
    convolutions = [(scaled(filters, width), pool) for filters, pool in CONVOLUTIONS]
    image = NETWORKS["binarynet"].stems["cifar"]
    return binary_chain(image, convolutions, [scaled(features, width) for features in DENSE], classes, padding=1)
