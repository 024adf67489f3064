"""Ordinary layers between low-memory ones: weights of 32 bits, activations of the width that the others have."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class LowMemoryConv2d(nn.Conv2d):
    """nn.Conv2d whose output has `dtype`."""

    dtype: torch.dtype

    def forward(self, x: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.to(self.dtype)
        y: Tensor = self._conv_forward(x.to(self.dtype), self.weight.to(self.dtype), bias)
        return y


class LowMemoryPReLU(nn.PReLU):
    """nn.PReLU of any width; its input is kept as it is."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.prelu(x, self.weight.to(x.dtype))


class LowMemoryLinear(nn.Linear):
    """nn.Linear whose output has `dtype`."""

    dtype: torch.dtype

    def forward(self, x: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.to(self.dtype)
        return functional.linear(x.to(self.dtype), self.weight.to(self.dtype), bias)
