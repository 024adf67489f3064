"""QuickNet of larq's zoo: binary residual blocks, real-valued transitions between them (docs/method.md, section 3)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from everbit.nn.binary import BinaryConv2d, Sign
from everbit.nn.windows import BlurPool2d, SamePad2d
from everbit.zoo.birealnet import Add
from everbit.zoo.stem import scaled, stem_stride

STE_CLIP = 1.25
EPSILON = 1e-5


@dataclass(frozen=True)
class Layout:
    """blocks and filters of the sections, filters of the stem's first convolution, at width 1."""

    blocks: tuple[int, ...]
    filters: tuple[int, ...]
    stem_filters: int


QUICKNET = Layout((4, 4, 4, 4), (64, 128, 256, 512), 16)
QUICKNET_SMALL = Layout((4, 4, 4, 4), (32, 64, 256, 512), 8)
QUICKNET_LARGE = Layout((6, 8, 12, 6), (64, 128, 256, 512), 16)


class QuickNetBlock(nn.Module):
    """x + BN(ReLU(bconv3x3(sign(x)))), borders +1: [N, C, H, W] -> the same."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.sign = Sign("ste_sign", clip=STE_CLIP)
        self.conv = BinaryConv2d(channels, channels, 3, padding="same", pad_value=1, scale=False)
        self.relu = nn.ReLU()
        self.bn = nn.BatchNorm2d(channels, eps=EPSILON)
        self.add = Add()

    def forward(self, x: Tensor) -> Tensor:
        total: Tensor = self.add(x, self.bn(self.relu(self.conv(self.sign(x)))))
        return total


def _transition(in_channels: int, out_channels: int) -> nn.Sequential:
    """ReLU, max pool 2 at stride 1, blur at stride 2, real 1x1, BN: [N, in, H, W] -> [N, out, H/2, W/2]."""
    steps = nn.Sequential()
    steps.add_module("relu", nn.ReLU())
    steps.add_module("pool", nn.MaxPool2d(2, stride=1))
    steps.add_module("blur", BlurPool2d(2, padding="same"))
    steps.add_module("conv", nn.Conv2d(in_channels, out_channels, 1, bias=False))
    steps.add_module("bn", nn.BatchNorm2d(out_channels, eps=EPSILON))
    return steps


def _stem(stem_filters: int, channels: int, stride: int) -> nn.Sequential:
    """Convolution, BN, ReLU, depthwise, BN, 1x1, BN; the 3x3 ones at stride s: [N, 3, H, W] -> [N, C, H/s^2, W/s^2]."""
    steps = nn.Sequential()
    steps.add_module("pad", SamePad2d(3, stride))
    steps.add_module("conv", nn.Conv2d(3, stem_filters, 3, stride, bias=False))
    steps.add_module("bn", nn.BatchNorm2d(stem_filters, eps=1e-3))
    steps.add_module("relu", nn.ReLU())
    steps.add_module("depthwise_pad", SamePad2d(3, stride))
    steps.add_module("depthwise", nn.Conv2d(stem_filters, stem_filters, 3, stride, groups=stem_filters, bias=False))
    steps.add_module("depthwise_bn", nn.BatchNorm2d(stem_filters, eps=1e-3, affine=False))
    steps.add_module("pointwise", nn.Conv2d(stem_filters, channels, 1, bias=False))
    steps.add_module("pointwise_bn", nn.BatchNorm2d(channels, eps=1e-3))
    return steps


class QuickNet(nn.Module):
    """Stem, four sections of blocks with a transition between two, ReLU, global average pool, linear head.

    Input [N, 3, H, W] float, images/127.5 - 1; output logits [N, classes]. The usual place to cut is
    `transition3.blur`, what the last 1x1 reads: [N, 256, 7, 7] of 224x224 pixels at width 1.
    """

    def __init__(self, layout: Layout, width: float, classes: int, stem: str) -> None:
        super().__init__()
        filters = [scaled(count, width) for count in layout.filters]
        self.stem = _stem(scaled(layout.stem_filters, width), filters[0], stem_stride(stem))
        self.sections = len(filters)
        for index, (channels, blocks) in enumerate(zip(filters, layout.blocks, strict=True), start=1):
            section = nn.Sequential()
            for block in range(1, blocks + 1):
                section.add_module(f"block{block}", QuickNetBlock(channels))
            self.add_module(f"section{index}", section)
            if index < len(filters):
                self.add_module(f"transition{index}", _transition(channels, filters[index]))
        self.relu = nn.ReLU()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.head = nn.Linear(filters[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for index in range(1, self.sections + 1):
            x = self.get_submodule(f"section{index}")(x)
            if index < self.sections:
                x = self.get_submodule(f"transition{index}")(x)
        logits: Tensor = self.head(self.flatten(self.pool(self.relu(x))))
        return logits


def quicknet(width: float = 1.0, classes: int = 1000, stem: str = "imagenet") -> QuickNet:
    """QuickNet; 13,234,088 parameters (2 per batch-norm channel, 9 per blurred one) at width 1, 1000 classes."""
    return QuickNet(QUICKNET, width, classes, stem)


def quicknet_small(width: float = 1.0, classes: int = 1000, stem: str = "imagenet") -> QuickNet:
    """QuickNetSmall; 12,655,688 parameters (2 per batch-norm channel, 9 per blurred one) at width 1, 1000 classes."""
    return QuickNet(QUICKNET_SMALL, width, classes, stem)


def quicknet_large(width: float = 1.0, classes: int = 1000, stem: str = "imagenet") -> QuickNet:
    """QuickNetLarge; 23,342,248 parameters (2 per batch-norm channel, 9 per blurred one) at width 1, 1000 classes."""
    return QuickNet(QUICKNET_LARGE, width, classes, stem)
