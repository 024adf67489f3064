"""Networks that are one chain of layers with binary weights, from the first to the last: BinaryNet, CNV, the MLP."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from everbit.nn.binary import BinaryConv2d, BinaryLinear, Sign


def _convolution(inputs: int, filters: int, padding: int, pool: bool, sign: bool) -> nn.Sequential:
    """Sign where `sign`, binary 3x3, 2x2 max pool where `pool`, batch norm."""
    block = nn.Sequential()
    if sign:
        block.add_module("sign", Sign("ste_sign"))
    block.add_module("conv", BinaryConv2d(inputs, filters, 3, padding=padding, scale=False))
    if pool:
        block.add_module("pool", nn.MaxPool2d(2))
    block.add_module("bn", nn.BatchNorm2d(filters))
    return block


def _dense(inputs: int, outputs: int, sign: bool) -> nn.Sequential:
    """Sign where `sign`, binary dense layer, batch norm: [N, inputs] -> [N, outputs]."""
    block = nn.Sequential()
    if sign:
        block.add_module("sign", Sign("ste_sign"))
    block.add_module("linear", BinaryLinear(inputs, outputs, scale=False))
    block.add_module("bn", nn.BatchNorm1d(outputs))
    return block


def binary_chain(
    image: tuple[int, int, int],
    convolutions: Sequence[tuple[int, bool]],
    dense: Sequence[int],
    classes: int,
    padding: int = 0,
) -> nn.Sequential:
    """block1, block2, ... (binary 3x3), flatten, dense1, dense2, ..., head, which is one more dense layer.

    image: height, width and channels of what it reads. convolutions: filters of each, and whether a 2x2 max pool
    follows. dense: features of each. The first layer reads the image, without a sign. Input float [N, channels, H, W],
    images/127.5 - 1; output logits [N, classes]. At each block only a sign reads the value: one bit loses nothing.
    """
    network = nn.Sequential()
    height, width, channels = image
    for index, (filters, pool) in enumerate(convolutions, start=1):
        network.add_module(f"block{index}", _convolution(channels, filters, padding, pool, sign=index > 1))
        height, width = ((side - 2 + 2 * padding) // (2 if pool else 1) for side in (height, width))
        channels = filters
    network.add_module("flatten", nn.Flatten())
    features = height * width * channels
    for index, outputs in enumerate(dense, start=1):
        network.add_module(f"dense{index}", _dense(features, outputs, sign=index > 1 or len(convolutions) > 0))
        features = outputs
    network.add_module("head", _dense(features, classes, sign=True))
    return network
