"""Ordinary layers between low-memory ones: weights of 32 bits, activations of the width that the others have."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from everbit.nn.low_memory_training.rows import as_rows, images_of, like, tidy_up


class _Convolution(torch.autograd.Function):
    """layer(x), a few images at a time, there and back: torch's convolutions work on copies of what they are given."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, layer: LowMemoryConv2d) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.layer = layer
        pieces = images_of(x.shape)
        first = layer.convolved(x[pieces[0]], weight, bias)
        y = like(first, (len(x), *first.shape[1:]))
        y[pieces[0]] = first
        for images in pieces[1:]:
            y[images] = layer.convolved(x[images], weight, bias)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias, _ = ctx.needs_input_grad
        dx = like(gradient, x.shape) if needs_x else None
        dw = torch.zeros_like(weight) if needs_weight else None
        for images in images_of(x.shape) if needs_x or needs_weight else []:
            with torch.enable_grad():
                inputs = [x[images].detach().requires_grad_(needs_x), weight.detach().requires_grad_(needs_weight)]
                y = ctx.layer.convolved(*inputs, None)
            wanted = [tensor for tensor in inputs if tensor.requires_grad]
            gradients = list(torch.autograd.grad(y, wanted, gradient[images]))
            if dw is not None:
                dw += gradients.pop()
            if dx is not None:
                dx[images] = gradients.pop()
        tidy_up(gradient)
        db = as_rows(gradient).sum(dim=0, dtype=weight.dtype) if needs_bias else None
        return dx, dw, db, None


class LowMemoryConv2d(nn.Conv2d):
    """nn.Conv2d whose output has `dtype`; it keeps its input as it is."""

    dtype: torch.dtype

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = _Convolution.apply(x, self.weight, self.bias, self)  # type: ignore[no-untyped-call]
        return y

    def convolved(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The output for some images, at once."""
        bias = None if bias is None else bias.to(self.dtype)
        y: Tensor = self._conv_forward(x.to(self.dtype), weight.to(self.dtype), bias)
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
