"""Pools and ReLU that keep bits, or nothing, for their backward passes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from everbit.nn.low_memory_training.rows import as_rows, images_of, like, pack, pack_rows, tidy_up, unpack
from everbit.nn.low_memory_training.sign import masked

MOST_TAPS = 256
"""Of a max pool: the number of the one that was largest is counted in 8 bits."""


class Windows(NamedTuple):
    """Square windows over maps: side, stride, and places outside on each side."""

    kernel: int
    stride: int
    padding: int

    def outputs(self, size: int) -> int:
        """How many windows lie along a side of `size` places."""
        return (size + 2 * self.padding - self.kernel) // self.stride + 1

    def _reads(self, tap: int, size: int) -> tuple[slice, slice]:
        """Along one side, the windows whose tap lies inside, and the places that it reads."""
        first = max(0, -(-(self.padding - tap) // self.stride))
        last = min(self.outputs(size) - 1, (size - 1 + self.padding - tap) // self.stride)
        if last < first:  # outside in all of them
            return slice(0), slice(0)
        start = first * self.stride + tap - self.padding
        return slice(first, last + 1), slice(start, last * self.stride + tap - self.padding + 1, self.stride)

    def taps(self, height: int, width: int) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        """For each tap, where it writes in [N, C, out height, out width] and reads in [N, C, height, width]."""
        for i in range(self.kernel):
            rows, from_rows = self._reads(i, height)
            for j in range(self.kernel):
                columns, from_columns = self._reads(j, width)
                yield (..., rows, columns), (..., from_rows, from_columns)


class _MaxPool(torch.autograd.Function):
    """Keeps which tap was the first of the largest, as planes of bits: two for windows of 2x2."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, windows: Windows) -> Tensor:
        count, channels, height, width = x.shape
        result = like(x, (count, channels, windows.outputs(height), windows.outputs(width))).fill_(-math.inf)
        planes: list[list[Tensor]] = [[] for _ in range(max(1, (windows.kernel**2 - 1).bit_length()))]
        for images in images_of(x.shape):
            best, source = result[images], x[images]
            chosen = like(best).to(torch.uint8).zero_()
            for tap, (to, read) in enumerate(windows.taps(height, width)):
                candidate = source[read]
                chosen[to].masked_fill_(candidate > best[to], tap)
                torch.maximum(best[to], candidate, out=best[to])
            for place, plane in enumerate(planes):
                plane.append(pack((as_rows(chosen) >> place) & 1 == 1))
        ctx.save_for_backward(*(torch.cat(plane) for plane in planes))
        ctx.windows, ctx.shape = windows, x.shape
        tidy_up(x)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        result = like(gradient, ctx.shape).zero_()
        channels, places = ctx.shape[1], gradient.shape[2] * gradient.shape[3]
        for images in images_of(ctx.shape):
            here, to = gradient[images], result[images]
            chosen = like(here).to(torch.uint8)
            rows = as_rows(chosen).zero_()
            for place, plane in enumerate(ctx.saved_tensors):
                rows += unpack(plane[images.start * places : images.stop * places], channels).to(torch.uint8) << place
            for tap, (read, write) in enumerate(ctx.windows.taps(*ctx.shape[2:])):
                to[write] += here[read] * (chosen[read] == tap)
        tidy_up(result)
        return result, None


class _AveragePool(torch.autograd.Function):
    """Keeps nothing but the shape."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, windows: Windows) -> Tensor:
        count, channels, height, width = x.shape
        wide = torch.promote_types(x.dtype, torch.float32)
        result = like(x, (count, channels, windows.outputs(height), windows.outputs(width)))
        for images in images_of(x.shape):
            total = torch.zeros_like(result[images], dtype=wide)
            for to, read in windows.taps(height, width):
                total[to] += x[images][read]
            result[images] = total.div_(windows.kernel**2)
        ctx.windows, ctx.shape = windows, x.shape
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        result = like(gradient, ctx.shape).zero_()
        share = gradient / ctx.windows.kernel**2
        for read, write in ctx.windows.taps(*ctx.shape[2:]):
            result[write] += share[read]
        return result, None


class _ReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(pack_rows(as_rows(x), lambda values: values > 0))
        return x.clamp(min=0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return masked(gradient, ctx.saved_tensors[0])


def _same(value: Any) -> int:
    """A side that torch gives as a number or a pair of equal ones."""
    return int(value if isinstance(value, int) else value[0])


def _windows(module: nn.MaxPool2d | nn.AvgPool2d) -> Windows:
    return Windows(_same(module.kernel_size), _same(module.stride), _same(module.padding))


def usual_windows(module: nn.Module) -> bool:
    """False for a pool whose windows are not those of `Windows`."""
    if not isinstance(module, (nn.MaxPool2d, nn.AvgPool2d)):
        return True
    square = all(
        isinstance(side, int) or len({*side}) == 1 for side in (module.kernel_size, module.stride, module.padding)
    )
    if isinstance(module, nn.MaxPool2d):
        few = _same(module.kernel_size) ** 2 <= MOST_TAPS
        return square and few and not module.ceil_mode and module.dilation == 1 and not module.return_indices
    counts = module.count_include_pad or not _same(module.padding)
    return square and not module.ceil_mode and counts and module.divisor_override is None


class LowMemoryMaxPool2d(nn.MaxPool2d):
    """Max pool of [N, C, H, W]; among equal values the gradient goes to the first, as in torch."""

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = _MaxPool.apply(x, _windows(self))  # type: ignore[no-untyped-call]
        return result


class LowMemoryAvgPool2d(nn.AvgPool2d):
    """Average pool of [N, C, H, W]; places outside count as 0."""

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = _AveragePool.apply(x, _windows(self))  # type: ignore[no-untyped-call]
        return result


class LowMemoryReLU(nn.ReLU):
    """max(x, 0) of [N, C, ...]."""

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = _ReLU.apply(x)  # type: ignore[no-untyped-call]
        return result
