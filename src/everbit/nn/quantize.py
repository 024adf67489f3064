"""Rounding as integer hardware does it to its input."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class FloorQuantize(nn.Module):
    """floor(x * 2^bits) / 2^bits, any shape: the next number below with `bits` bits behind the point."""

    def __init__(self, bits: int) -> None:
        super().__init__()
        self.bits = bits

    def forward(self, x: Tensor) -> Tensor:
        return torch.floor(x * 2.0**self.bits) / 2.0**self.bits

    def extra_repr(self) -> str:
        return f"bits={self.bits}"
