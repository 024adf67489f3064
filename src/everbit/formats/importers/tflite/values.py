"""What an importer knows of an activation: the PyTorch node that makes it, and how the file laid it out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from torch import fx

WORD = 32
"""Signs in one int32 of a tensor that Larq Compute Engine packs."""


class Layout(Enum):
    """Order of a tensor's axes in the file; in PyTorch a map is [N, C, H, W] and a row is [N, F] always."""

    MAP = "NHWC"
    CHANNELS_FIRST = "NCHW"
    ROW = "NF"


@dataclass(frozen=True)
class Border:
    """Places around a map, as `nn.ConstantPad2d` takes them, and their value."""

    left: int
    right: int
    top: int
    bottom: int
    value: float

    @property
    def sides(self) -> tuple[int, int, int, int]:
        return self.left, self.right, self.top, self.bottom


@dataclass(frozen=True)
class Value:
    """An activation.

    height, width, channels: with the border; a row is 1 x 1. node: what makes it, without the border. from_map: of a
    flattened map, its height, width and channels, because the file has those in that order and PyTorch channels first.
    real: where the value is signs, the node whose signs they are. border: one that the layer behind takes over.
    """

    node: fx.Node
    height: int
    width: int
    channels: int
    layout: Layout = Layout.MAP
    from_map: tuple[int, int, int] | None = None
    real: fx.Node | None = None
    border: Border | None = None

    def file_shape(self, rank: int) -> tuple[int, ...]:
        """The shape the file should give it, without the batch."""
        channels = -(-self.channels // WORD) if self.real is not None else self.channels
        if self.layout is Layout.ROW:
            return (1,) * (rank - 2) + (channels,)
        if self.layout is Layout.CHANNELS_FIRST:
            return channels, self.height, self.width
        return self.height, self.width, channels
