"""BiReal-18: one binary convolution a block, each with its own real-valued shortcut (docs/method.md, section 3)."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from everbit.nn.binary import BinaryConv2d, Sign
from everbit.zoo.stem import build_stem, scaled

FILTERS = (64, 128, 256, 512)  # of the four stages, at width 1
BLOCKS = 4  # in each stage


def build_downsample(in_channels: int, out_channels: int, stride: int) -> nn.Sequential | None:
    """Shortcut of a block that halves the map: average pool 2, real 1x1 convolution, batch norm; None at stride 1."""
    if stride == 1:
        return None
    shortcut = nn.Sequential()
    shortcut.add_module("pool", nn.AvgPool2d(stride))
    shortcut.add_module("conv", nn.Conv2d(in_channels, out_channels, 1, bias=False))
    shortcut.add_module("bn", nn.BatchNorm2d(out_channels))
    return shortcut


class Add(nn.Module):
    """a + b, two tensors of one shape. A module, so that the sum has a path by which a network may be cut there."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b


class BiRealBlock(nn.Module):
    """BN(bconv3x3(sign(x))) + shortcut(x): [N, in, H, W] -> [N, out, H/stride, W/stride].

    The sum is the block's output, so that "stage4.block1" and "stage4.block1.add" name the same point.
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.sign = Sign("approx_sign")
        self.conv = BinaryConv2d(in_channels, out_channels, 3, stride, padding=1)
        self.bn = nn.BatchNorm2d(out_channels)
        self.downsample = build_downsample(in_channels, out_channels, stride)
        self.add = Add()

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        total: Tensor = self.add(self.bn(self.conv(self.sign(x))), shortcut)
        return total


class ResidualNet(nn.Module):
    """Stem, four stages of four one-convolution blocks, global average pool, linear head.

    Input [N, 3, H, W] float, images/127.5 - 1; output logits [N, classes].
    """

    def __init__(self, block: Callable[[int, int, int], nn.Module], width: float, classes: int, stem: str) -> None:
        super().__init__()
        filters = [scaled(count, width) for count in FILTERS]
        self.stem = build_stem(stem, filters[0])
        channels = filters[0]
        for stage, out_channels in enumerate(filters, start=1):
            blocks = nn.Sequential()
            for index in range(1, BLOCKS + 1):
                stride = 2 if stage > 1 and index == 1 else 1
                blocks.add_module(f"block{index}", block(channels, out_channels, stride))
                channels = out_channels
            self.add_module(f"stage{stage}", blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for stage in range(1, len(FILTERS) + 1):
            x = self.get_submodule(f"stage{stage}")(x)
        logits: Tensor = self.head(self.flatten(self.pool(x)))
        return logits


def birealnet18(width: float = 1.0, classes: int = 10, stem: str = "cifar") -> ResidualNet:
    """BiReal-18; 11,183,562 parameters (4 per batch-norm channel) at width 1, 10 classes, CIFAR stem."""
    return ResidualNet(BiRealBlock, width, classes, stem)
