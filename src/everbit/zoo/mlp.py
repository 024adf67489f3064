"""The MLP of W23: five binary dense layers on MNIST's images (docs/method.md, section 3)."""

from __future__ import annotations

from torch import nn

from everbit.zoo.binary_chain import binary_chain
from everbit.zoo.cuts import NETWORKS
from everbit.zoo.stem import scaled

DENSE = (256, 256, 256, 256)  # features of the dense layers at width 1; W23's memory figures fit no other size


def mlp(width: float = 1.0, classes: int = 10) -> nn.Sequential:
    """The MLP; 399,872 binary weights at width 1 with 10 classes."""
    return binary_chain(NETWORKS["mlp"].stems["mnist"], (), [scaled(features, width) for features in DENSE], classes)
