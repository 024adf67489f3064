"""CNV of FINN: six binary convolutions without borders, three binary dense layers (docs/method.md, section 3)."""

from __future__ import annotations

from torch import nn

from everbit.zoo.binary_chain import binary_chain
from everbit.zoo.cuts import NETWORKS
from everbit.zoo.stem import scaled

# Filters at width 1 of the convolutions, and whether a 2x2 max pool follows.
CONVOLUTIONS = ((64, False), (64, True), (128, False), (128, True), (256, False), (256, False))
DENSE = (512, 512)  # features of the dense layers at width 1


def cnv(width: float = 1.0, classes: int = 10) -> nn.Sequential:
    """CNV; 1,542,848 binary weights at width 1 with 10 classes. Its last map has one place."""
    convolutions = [(scaled(filters, width), pool) for filters, pool in CONVOLUTIONS]
    image = NETWORKS["cnv"].stems["cifar"]
    return binary_chain(image, convolutions, [scaled(features, width) for features in DENSE], classes)
