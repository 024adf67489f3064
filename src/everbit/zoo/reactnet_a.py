"""ReActNet-A: MobileNetV1 with binary 3x3 and 1x1 convolutions, each with its own shortcut (arXiv 2003.03488)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from everbit.nn.binary import BinaryConv2d, LearnedBias, RPReLU, Sign
from everbit.zoo.birealnet import Add
from everbit.zoo.stem import scaled, stem_stride

STEM_FILTERS = 32  # at width 1
FILTERS = (64, 128, 128, 256, 256, *[512] * 6, 1024, 1024)  # of the blocks, at width 1


class Concatenate(nn.Module):
    """Channels side by side. A module, so that the result has a path by which a network may be cut there."""

    def forward(self, *parts: Tensor) -> Tensor:
        return torch.cat(parts, dim=1)


class SpatialStep(nn.Module):
    """RPReLU(BN(bconv3x3(sign(x + b))) + shortcut(x)): [N, C, H, W] -> [N, C, H/stride, W/stride]."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.bias = LearnedBias(channels)
        self.sign = Sign("approx_sign")
        self.conv = BinaryConv2d(channels, channels, 3, stride, padding=1)
        self.bn = nn.BatchNorm2d(channels)
        self.shortcut = nn.AvgPool2d(stride) if stride > 1 else nn.Identity()
        self.add = Add()
        self.activation = RPReLU(channels)

    def forward(self, x: Tensor) -> Tensor:
        branch = self.bn(self.conv(self.sign(self.bias(x))))
        activated: Tensor = self.activation(self.add(self.shortcut(x), branch))
        return activated


class PointwiseStep(nn.Module):
    """RPReLU of `copies` times BN(bconv1x1(sign(x + b))) + x, side by side: [N, C, H, W] -> [N, copies * C, H, W]."""

    def __init__(self, channels: int, copies: int) -> None:
        super().__init__()
        self.bias = LearnedBias(channels)
        self.sign = Sign("approx_sign")
        self.copies = copies
        for copy in range(1, copies + 1):
            self.add_module(f"conv{copy}", BinaryConv2d(channels, channels, 1, padding=0))
            self.add_module(f"bn{copy}", nn.BatchNorm2d(channels))
            self.add_module(f"add{copy}", Add())
        self.concat = Concatenate() if copies > 1 else nn.Identity()
        self.activation = RPReLU(copies * channels)

    def forward(self, x: Tensor) -> Tensor:
        signs = self.sign(self.bias(x))
        sums = []
        for copy in range(1, self.copies + 1):
            conv, bn, add = (self.get_submodule(f"{name}{copy}") for name in ("conv", "bn", "add"))
            sums.append(add(bn(conv(signs)), x))
        activated: Tensor = self.activation(self.concat(*sums))
        return activated


def _block(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    block = nn.Sequential()
    block.add_module("spatial", SpatialStep(inputs, stride))
    block.add_module("pointwise", PointwiseStep(inputs, outputs // inputs))
    return block


def reactnet_a(width: float = 1.0, classes: int = 1000, stem: str = "imagenet") -> nn.Sequential:
    """ReActNet-A: stem, block1 .. block13, pool, linear head; 29,365,480 parameters (4 per batch-norm channel).

    That is at width 1 with 1000 classes. Each block has twice the channels of the one before, or as many: widths round
    those of the stem. Input [N, 3, H, W] float, images/127.5 - 1; output logits [N, classes].
    """
    network, channels = nn.Sequential(), scaled(STEM_FILTERS, width)
    first = nn.Sequential()
    first.add_module("conv", nn.Conv2d(3, channels, 3, stem_stride(stem), padding=1, bias=False))
    first.add_module("bn", nn.BatchNorm2d(channels))
    network.add_module("stem", first)
    before = STEM_FILTERS
    for index, filters in enumerate(FILTERS, start=1):
        copies = filters // before
        stride = 2 if copies > 1 and index > 1 else 1
        network.add_module(f"block{index}", _block(channels, copies * channels, stride))
        channels, before = copies * channels, filters
    network.add_module("pool", nn.AdaptiveAvgPool2d(1))
    network.add_module("flatten", nn.Flatten())
    network.add_module("head", nn.Linear(channels, classes))
    return network
