"""Sliding windows: what a convolution or a pool reads, and the three correlations of a convolution."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from reference.fixed_point import Integers, product_sum


@dataclass(frozen=True)
class Window:
    """Kernel height and width, stride, rows above the image and columns left of it, and the size of the output.

    What the last windows read below and right of the image is padding too.
    """

    height: int
    width: int
    stride: int
    top: int
    left: int
    out_height: int
    out_width: int

    def pad(self, x: Integers, value: int) -> Integers:
        """x [N, H, W, C] with a border of `value`, as far as the windows reach."""
        bottom = max(0, (self.out_height - 1) * self.stride + self.height - self.top - x.shape[1])
        right = max(0, (self.out_width - 1) * self.stride + self.width - self.left - x.shape[2])
        return np.pad(x, ((0, 0), (self.top, bottom), (self.left, right), (0, 0)), constant_values=value)

    def taps(self) -> Iterator[tuple[int, int]]:
        """Places of the window in row-major order."""
        return ((row, column) for row in range(self.height) for column in range(self.width))

    def read(self, row: int, column: int) -> tuple[slice, slice, slice]:
        """Index of the padded pixels that tap (row, column) reads, one for each output pixel."""
        return (
            slice(None),
            slice(row, row + self.stride * (self.out_height - 1) + 1, self.stride),
            slice(column, column + self.stride * (self.out_width - 1) + 1, self.stride),
        )

    def crop(self, padded: Integers, height: int, width: int) -> Integers:
        """The inverse of `pad`, for an image of that size."""
        return padded[:, self.top : self.top + height, self.left : self.left + width]


def correlate(padded: Integers, weight: Integers, window: Window) -> Integers:
    """padded [N, H, W, C_in], weight [C_out, height, width, C_in / groups] -> [N, out_height, out_width, C_out]."""
    out = np.zeros((len(padded), window.out_height, window.out_width, len(weight)), np.int64)
    for reads, makes in groups(padded.shape[3], weight):
        for row, column in window.taps():
            out[..., makes] += padded[window.read(row, column)][..., reads] @ weight[makes, row, column].T
    return out


def correlate_input_gradient(gradient: Integers, weight: Integers, window: Window, like: Integers) -> Integers:
    """Gradient of `correlate` by its input before padding, in the shape of `like` [N, height, width, C_in]."""
    padded = window.pad(np.zeros_like(like), 0)
    for reads, makes in groups(like.shape[3], weight):
        for row, column in window.taps():
            place = (*window.read(row, column), reads)
            padded[place] += gradient[..., makes] @ weight[makes, row, column]
    return window.crop(padded, *like.shape[1:3])


def correlate_weight_gradient(
    gradient: Integers, padded: Integers, weight: Integers, window: Window, bits: int = 16
) -> Integers:
    """Gradient of `correlate` by its weight, in the shape of `weight`; bits: of the input, for its products."""
    total = np.zeros_like(weight)
    for reads, makes in groups(padded.shape[3], weight):
        rows = gradient[..., makes].reshape(-1, makes.stop - makes.start)
        for row, column in window.taps():
            patch = padded[window.read(row, column)][..., reads]
            total[makes, row, column] = product_sum(rows, patch.reshape(len(rows), -1), bits)
    return total


def groups(in_channels: int, weight: Integers) -> list[tuple[slice, slice]]:
    """Channels that each group reads and makes; weight [C_out, height, width, C_in / groups]."""
    reads = weight.shape[3]
    count = in_channels // reads
    makes = len(weight) // count
    return [(slice(g * reads, (g + 1) * reads), slice(g * makes, (g + 1) * makes)) for g in range(count)]
