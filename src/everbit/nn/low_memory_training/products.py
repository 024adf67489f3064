"""The three products of a layer with binary weights, a few images at a time.

Two ways. Bits meet bits in the engine's packed kernels, where gradients become integers of 16 bits with one scale a
tensor, so that the sums of one call are exact. What they do not take (a first layer's real input, another device than
the processor, longer sums) torch multiplies, in tiles of +-1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from everbit import _engine
from everbit.errors import EverbitError
from everbit.nn.low_memory_training.packed_signs import PackedSigns
from everbit.nn.low_memory_training.rows import as_rows, signs, tiles, within
from everbit.packed_weights import interleaved

AT_ONCE = 1 << 19
"""Values of an input or output that are multiplied at once; up to ALL_AT_ONCE, where that is all there are."""

ALL_AT_ONCE = 1 << 20

LONGEST_SUM = 32767
"""Terms of a sum that the engine takes."""

LONGEST_STRIDE = 255
"""Stride that the engine takes."""

MOST_PLACES = 65536
"""Places that one call of the engine takes."""

LARGEST = 2**15 - 1
"""Of a gradient as a 16-bit integer."""


@dataclass(frozen=True)
class Layer:
    """Shape of a layer with binary weights; a dense one has maps and windows of one place.

    input, output: height, width, channels. padding: above and left; output says what lies below and right.
    """

    input: tuple[int, int, int]
    output: tuple[int, int, int]
    kernel: int
    stride: int
    padding: tuple[int, int]
    pad_value: int

    @property
    def taps(self) -> int:
        """Places of a window."""
        return self.kernel**2

    @property
    def fan_in(self) -> int:
        """Terms of a sum."""
        return self.taps * self.input[2]

    def borders(self) -> list[int]:
        """What torch pads with: left, right, above, below. Windows may leave some of the image unread."""
        sides = []
        for size, count, before in zip(self.input, self.output, self.padding, strict=False):
            sides.append((before, (count - 1) * self.stride + self.kernel - size - before))
        return [*sides[1], *sides[0]]

    def at_once(self, images: int) -> int:
        """How many of so many images are multiplied at once: all of them where that is little."""
        largest = max(math.prod(self.input), math.prod(self.output))
        step = images if images * largest <= ALL_AT_ONCE else max(1, AT_ONCE // largest)
        return min(step, MOST_PLACES // (self.output[0] * self.output[1]) or 1)

    def pieces(self, images: int) -> Iterator[slice]:
        """Ranges of images that are multiplied at once."""
        step = self.at_once(images)
        for first in range(0, images, step):
            yield slice(first, min(images, first + step))


def places(images: slice, side: tuple[int, int, int]) -> slice:
    """The rows of some images."""
    return slice(images.start * side[0] * side[1], images.stop * side[0] * side[1])


def engine_products(layer: Layer, images: int) -> _engine.BinaryProducts:
    """The engine's products of as many of the images as are multiplied at once."""
    window = (layer.kernel, layer.kernel, layer.stride, *layer.padding)
    most, threads = layer.at_once(images), torch.get_num_threads()
    return _engine.BinaryProducts(layer.input, layer.output, window, layer.pad_value, most, threads)


class PackedProducts:
    """By the engine. x: PackedSigns."""

    def __init__(self, layer: Layer, weights: Tensor, images: int) -> None:
        self.layer, self.pieces = layer, list(layer.pieces(images))
        self.weights: NDArray[np.uint64] = interleaved(
            weights.numpy().view(np.uint64).reshape(layer.output[2], -1)
        ).ravel()
        self.engine = engine_products(layer, images)

    @staticmethod
    def takes(layer: Layer, x: Tensor) -> bool:
        """Whether the engine has this product."""
        packed = isinstance(x, PackedSigns) and x.bits is not None and x.device.type == "cpu"
        longest = layer.taps * max(layer.input[2], layer.output[2])
        fits = longest <= LONGEST_SUM and layer.output[0] * layer.output[1] <= MOST_PLACES
        return packed and fits and max(layer.padding) < layer.kernel and layer.stride <= LONGEST_STRIDE

    def forward(self, x: Tensor, y: Tensor, scale: Tensor) -> None:
        """Writes scale * (sums) to the rows y."""
        sums = self._room(self.layer.output, torch.int16)
        for images in self.pieces:
            rows = places(images, self.layer.output)
            here = sums[: rows.stop - rows.start]
            self.engine.sums(self._words(x, images), self.weights, _flat(here))
            _store(here, scale, y[rows])

    def backward(
        self, x: Tensor, gradient: Tensor, scale: Tensor, dx: Tensor | None, wants_weight: bool
    ) -> tuple[Tensor, float] | None:
        """Writes dX to the rows dx where there are any; returns dW, [out * taps, in] and its unit, where wanted."""
        layer, step = self.layer, _step(gradient, scale)
        integers = self._room(layer.output, torch.int16)
        sums = None if dx is None else self._room(layer.input, torch.int32)
        dw = torch.empty((layer.output[2] * layer.taps, layer.input[2]), dtype=torch.int32) if wants_weight else None
        total: Tensor | None = None
        for images in self.pieces:
            rows, read = places(images, layer.output), places(images, layer.input)
            g = integers[: rows.stop - rows.start]
            _round(gradient[rows], scale / step, g)
            if dx is not None and sums is not None:
                here = sums[: read.stop - read.start]
                self.engine.input_gradient(_flat(g), self.weights, _flat(here))
                _store(here, step, dx[read])
            if dw is not None:
                self.engine.weight_gradient(_flat(g), self._words(x, images), _flat(dw))
                if len(self.pieces) > 1:  # the engine's sums are exact for one piece
                    total = dw.to(torch.float32) if total is None else total.add_(dw)
        return None if dw is None else (dw if total is None else total, step)

    def _room(self, side: tuple[int, int, int], dtype: torch.dtype) -> Tensor:
        """Rows of as many images as are multiplied at once."""
        return torch.empty((self.pieces[0].stop * side[0] * side[1], side[2]), dtype=dtype)

    def _words(self, x: Tensor, images: slice) -> NDArray[np.uint64]:
        assert isinstance(x, PackedSigns) and x.bits is not None
        return x.bits[places(images, self.layer.input)].numpy().reshape(-1).view(np.uint64)


def _step(gradient: Tensor, scale: Tensor) -> float:
    """What one of the integers stands for, that the largest of scale * gradient becomes LARGEST."""
    largest = 0.0
    for tile in tiles(*gradient.shape):
        here = float((gradient[tile] * scale).abs_().amax())
        largest = here if not here <= largest else largest
    if not np.isfinite(largest):
        raise EverbitError(
            f"a gradient in front of a binary layer became {largest}: "
            "use a lower learning rate, or dtype bfloat16 or float32"
        )
    return max(largest / LARGEST, float(np.finfo(np.float32).tiny))


def _round(rows: Tensor, factor: Tensor, to: Tensor) -> None:
    """Writes factor * rows as integers."""
    for tile in tiles(*rows.shape):
        to[tile] = (rows[tile] * factor).round_().clamp_(-LARGEST, LARGEST)


def _store(sums: Tensor, scale: Tensor | float, to: Tensor) -> None:
    """Writes scale * sums."""
    for tile in tiles(*sums.shape):
        to[tile] = within(sums[tile] * scale, to.dtype)


def _flat(rows: Tensor) -> NDArray[Any]:
    """The array of contiguous rows."""
    return rows.numpy().reshape(-1)


class TiledProducts:
    """By torch, on the places under each window as rows. x: any tensor; one of +-1 may be PackedSigns."""

    def __init__(self, layer: Layer, weights: Tensor, images: int) -> None:
        self.layer, self.pieces, self.weights = layer, list(layer.pieces(images)), weights

    def forward(self, x: Tensor, y: Tensor, scale: Tensor) -> None:
        """Writes scale * (sums) to the rows y."""
        weight = self._weight(scale.dtype)
        for images in self.pieces:
            sums = (self._patches(x, images, scale.dtype) @ weight.T).mul_(scale)
            y[places(images, self.layer.output)] = within(sums, y.dtype)

    def backward(
        self, x: Tensor, gradient: Tensor, scale: Tensor, dx: Tensor | None, wants_weight: bool
    ) -> tuple[Tensor, float] | None:
        """Writes dX to the rows dx where there are any; returns dW, [out * taps, in] and its unit, where wanted."""
        layer = self.layer
        weight = None if dx is None else self._weight(scale.dtype)
        left, right, above, below = layer.borders()
        padded = (layer.input[0] + above + below, layer.input[1] + left + right)
        shape = (layer.output[2], layer.fan_in)
        total = torch.zeros(shape, dtype=scale.dtype, device=scale.device) if wants_weight else None
        for images in self.pieces:
            g = gradient[places(images, layer.output)] * scale
            if dx is not None and weight is not None:
                patches = (g @ weight).view(images.stop - images.start, -1, layer.fan_in).movedim(1, 2)
                maps = functional.fold(patches, padded, layer.kernel, stride=layer.stride)
                inner = as_rows(functional.pad(maps, [-left, -right, -above, -below]))
                dx[places(images, layer.input)] = within(inner, dx.dtype)
            if total is not None:
                total.addmm_(g.T, self._patches(x, images, scale.dtype))
        return None if total is None else (as_rows(total.view(layer.output[2], layer.input[2], -1)), 1.0)

    def _weight(self, dtype: torch.dtype) -> Tensor:
        """[out, in * taps]"""
        layer = self.layer
        rows = signs(self.weights, layer.input[2], dtype)
        return rows.view(layer.output[2], layer.taps, layer.input[2]).movedim(1, 2).reshape(layer.output[2], -1)

    def _patches(self, x: Tensor, images: slice, dtype: torch.dtype) -> Tensor:
        """[places of the output, in * taps]"""
        layer = self.layer
        if isinstance(x, PackedSigns) and x.bits is not None:
            rows = signs(x.bits[places(images, layer.input)], layer.input[2], dtype)
            maps = rows.view(-1, *layer.input).movedim(3, 1)
        else:
            maps = x[images].to(dtype).view(-1, layer.input[2], *layer.input[:2])
        maps = functional.pad(maps, layer.borders(), value=float(layer.pad_value))
        return functional.unfold(maps, layer.kernel, stride=layer.stride).movedim(1, 2).reshape(-1, layer.fan_in)


def products(layer: Layer, x: Tensor, weights: Tensor) -> PackedProducts | TiledProducts:
    """The way that a product is made. weights: bits."""
    way = PackedProducts if PackedProducts.takes(layer, x) else TiledProducts
    return way(layer, weights, x.shape[0])
