"""VGG-Small: a plain chain of six convolutions, the first with real weights (docs/method.md, section 3)."""

from __future__ import annotations

from torch import Tensor, nn

from everbit.nn.binary import BinaryConv2d, Sign
from everbit.zoo.stem import build_stem, scaled

STEM_FILTERS = 128  # at width 1
# Filters at width 1 of the binary convolutions 2 to 6, and whether a 2x2 max pool follows.
LAYERS = ((128, True), (256, False), (256, True), (512, False), (512, True))
SIDE = 32  # of the input images, pixels: the head is as wide as the last map
POOLS = sum(pool for _, pool in LAYERS)


class VGGSmall(nn.Module):
    """stem, block2 .. block6 (sign, binary convolution, batch norm, max pool or none), linear head on the whole map.

    Input [N, 3, 32, 32] float, images/127.5 - 1; output logits [N, classes]. The usual place to cut is
    `block5`, [N, 512, 8, 8] at width 1: only the sign of `block6` reads it, so that one bit a value loses nothing.
    """

    def __init__(self, width: float, classes: int) -> None:
        super().__init__()
        channels = scaled(STEM_FILTERS, width)
        self.stem = build_stem("cifar", channels)
        self.blocks = len(LAYERS)
        for index, (filters, pool) in enumerate(LAYERS, start=2):
            out_channels = scaled(filters, width)
            block = nn.Sequential()
            block.add_module("sign", Sign("ste_sign"))
            block.add_module("conv", BinaryConv2d(channels, out_channels, 3, padding=1))
            block.add_module("bn", nn.BatchNorm2d(out_channels))
            if pool:
                block.add_module("pool", nn.MaxPool2d(2))
            self.add_module(f"block{index}", block)
            channels = out_channels
        self.flatten = nn.Flatten()
        self.head = nn.Linear(channels * (SIDE >> POOLS) ** 2, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for index in range(2, 2 + self.blocks):
            x = self.get_submodule(f"block{index}")(x)
        logits: Tensor = self.head(self.flatten(x))
        return logits


def vgg_small(width: float = 1.0, classes: int = 10) -> VGGSmall:
    """VGG-Small; 4,663,690 parameters (4 per batch-norm channel) at width 1 with 10 classes."""
    return VGGSmall(width, classes)
