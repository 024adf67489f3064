"""Batch norm whose backward pass keeps one bit a value (W23, section 3; docs/low_memory.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from everbit.nn.low_memory_training.rows import (
    as_rows,
    like,
    no_bits,
    pack,
    remember_signs,
    signs,
    tidy_up,
    tiles,
    within,
)


def _sum(rows: Tensor, of: Callable[[slice], Tensor]) -> Tensor:
    """Sums by channel of of(tile) over all tiles, float64 [C]."""
    total = torch.zeros(rows.shape[1], dtype=torch.float64, device=rows.device)
    for tile in tiles(*rows.shape):
        total += of(tile).sum(dim=0)
    return total


class _BatchNorm(torch.autograd.Function):
    """x = gamma (y - mean) / psi + beta, with psi the mean size of y - mean (order 1) or its root mean square (2).

    Order 1 keeps s = sign(x) and omega = mean|x / gamma| by channel, and with v = gamma dx / psi takes
    dy = v - mean(v) - s omega mean(v s). Order 2 keeps k = (y - mean) / psi itself, and dy = v - mean(v) - k mean(v k).
    gamma is a constant.
    """

    @staticmethod
    def forward(ctx: Any, y: Tensor, gamma: Tensor, beta: Tensor, eps: float, order: int) -> tuple[Tensor, ...]:
        rows, wide = as_rows(y), torch.promote_types(y.dtype, torch.float32)
        count, channels = rows.shape
        mean = (_sum(rows, lambda tile: rows[tile].to(wide)) / count).to(wide)
        moment = _sum(rows, lambda tile: (rows[tile].to(wide) - mean).abs_().pow_(order)) / count
        variance = moment ** (2 / order)
        factor = (gamma / (variance + eps).sqrt()).to(wide)
        result = like(y)
        out = as_rows(result)
        bits = no_bits(count, channels, y.device)
        size = torch.zeros(channels, dtype=torch.float64, device=y.device)
        for tile in tiles(count, channels):
            x = (rows[tile].to(wide) - mean).mul_(factor).add_(beta)
            out[tile] = within(x, y.dtype)
            bits[tile] = pack(out[tile] >= 0)
            size += x.abs_().sum(dim=0)
        if order == 1:
            kept = bits
            omega = torch.where(gamma == 0, 0.0, size / count / gamma.abs())  # nothing passes where gamma is 0
        else:
            kept = like(y)
            normalized = as_rows(kept)
            for tile in tiles(count, channels):
                normalized[tile] = (rows[tile].to(wide) - mean) * (variance + eps).rsqrt().to(wide)
            omega = torch.ones_like(mean)
        ctx.save_for_backward(kept, factor, omega.to(wide))
        ctx.order = order
        ctx.mark_non_differentiable(bits, mean, variance)
        return result, bits, mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        kept, factor, omega = ctx.saved_tensors
        rows, wide = as_rows(gradient), factor.dtype
        count, channels = rows.shape

        def normalized(tile: slice) -> Tensor:
            if ctx.order == 1:
                return signs(kept[tile], channels, wide)
            return as_rows(kept)[tile].to(wide)

        beta_gradient = _sum(rows, lambda tile: rows[tile].to(wide))
        along = _sum(rows, lambda tile: rows[tile].to(wide) * normalized(tile))
        result = None
        if ctx.needs_input_grad[0]:
            result = like(gradient)
            out = as_rows(result)
            # One value a channel is its own mean: nothing that it does changes x.
            factor = factor if count > 1 else torch.zeros_like(factor)
            offset = (factor * beta_gradient / count).to(wide)
            slope = (omega * factor * along / count).to(wide)
            for tile in tiles(count, channels):
                dy = (rows[tile].to(wide) * factor).sub_(offset).addcmul_(normalized(tile), slope, value=-1)
                out[tile] = within(dy, gradient.dtype)
        tidy_up(gradient)
        return result, None, beta_gradient.to(wide), None, None


class _LowMemoryBatchNorm(nn.modules.batchnorm._BatchNorm):
    """A batch norm of [N, C, ...] for low-memory training.

    order: 1 keeps bits and divides by the mean size, 2 keeps values and divides by the standard deviation. Names and
    evaluation are torch's, and running_var holds psi^2 (of the batch; torch counts one value less), so that a state
    dict goes both ways. gamma stays what it is (W23 has none).
    """

    order: int

    def forward(self, y: Tensor) -> Tensor:
        self._check_input_dim(y)  # type: ignore[no-untyped-call]
        wide = torch.promote_types(y.dtype, torch.float32)
        ones = torch.ones(self.num_features, dtype=wide, device=y.device)
        gamma = ones if self.weight is None else self.weight.detach().to(wide)
        beta = torch.zeros_like(ones) if self.bias is None else self.bias.to(wide)
        if not self.training and self.running_mean is not None and self.running_var is not None:
            mean, variance = self.running_mean.to(wide), self.running_var.to(wide)
            return functional.batch_norm(y.to(wide), mean, variance, gamma, beta, eps=self.eps).to(y.dtype)
        x, bits, mean, variance = _BatchNorm.apply(y, gamma, beta, self.eps, self.order)  # type: ignore[no-untyped-call]
        remember_signs(x, bits)
        if self.training and self.running_mean is not None:
            self._track(mean, variance)
        result: Tensor = x
        return result

    @torch.no_grad()
    def _track(self, mean: Tensor, variance: Tensor) -> None:
        assert self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(variance.to(self.running_var.dtype), share)


class LowMemoryBatchNorm1d(_LowMemoryBatchNorm, nn.BatchNorm1d):
    """Of [N, C] or [N, C, L]."""


class LowMemoryBatchNorm2d(_LowMemoryBatchNorm, nn.BatchNorm2d):
    """Of [N, C, H, W]."""
