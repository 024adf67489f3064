"""Modules that stand for steps torch has only as functions or operators."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RefusedError(Exception):
    """A call that has no module in its place: what is wrong with it, and what would work."""

    def __init__(self, wrong: str, cure: str) -> None:
        super().__init__(wrong)
        self.wrong, self.cure = wrong, cure


class FlattenTo(nn.Flatten):
    """A map [N, C, H, W] to rows [N, length]."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length

    def fits(self, height: int, width: int, channels: int) -> bool:
        """Whether a row of a map has this length."""
        return height * width * channels == self.length


class Squeeze(nn.Flatten):
    """A map of one place [N, C, 1, 1] to rows [N, C]."""

    def fits(self, height: int, width: int, channels: int) -> bool:
        """Whether a map has one place."""
        return height == width == 1


class MultiplyAdd(nn.Module):
    """x * factor + offset for x [N, C, ...]; both one number, or float [C]."""

    factor: Tensor
    offset: Tensor

    def __init__(self, factor: Tensor | float = 1.0, offset: Tensor | float = 0.0) -> None:
        super().__init__()
        self.register_buffer("factor", torch.as_tensor(factor, dtype=torch.float32).detach().flatten())
        self.register_buffer("offset", torch.as_tensor(offset, dtype=torch.float32).detach().flatten())

    def forward(self, x: Tensor) -> Tensor:
        by_channel = (-1, *[1] * (x.dim() - 2))
        return x * self.factor.view(by_channel) + self.offset.view(by_channel)
