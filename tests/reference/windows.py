"""Sliding windows: what a convolution or a pool reads, and the three correlations of a convolution."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from reference.fixed_point import Integers, product_sum


@dataclass(frozen=True)
class Window:
    """kernel height and width, stride, and padding on all four sides, in pixels."""

    height: int
    width: int
    stride: int
    padding: int

    def pad(self, x: Integers, value: int) -> Integers:
        """x [N, H, W, C] with a border of `value`."""
        border = (self.padding, self.padding)
        return np.pad(x, ((0, 0), border, border, (0, 0)), constant_values=value)

    def taps(self) -> Iterator[tuple[int, int]]:
        """Places of the window in row-major order."""
        return ((row, column) for row in range(self.height) for column in range(self.width))

    def read(self, row: int, column: int, out_height: int, out_width: int) -> tuple[slice, slice, slice]:
        """Index of the padded pixels that tap (row, column) reads, one for each output pixel."""
        return (
            slice(None),
            slice(row, row + self.stride * (out_height - 1) + 1, self.stride),
            slice(column, column + self.stride * (out_width - 1) + 1, self.stride),
        )

    def crop(self, padded: Integers) -> Integers:
        """The inverse of `pad`."""
        p = self.padding
        return padded[:, p : padded.shape[1] - p, p : padded.shape[2] - p]


def correlate(padded: Integers, weight: Integers, window: Window, out_height: int, out_width: int) -> Integers:
    """padded [N, H, W, C_in], weight [C_out, height, width, C_in] -> [N, out_height, out_width, C_out]."""
    out = np.zeros((len(padded), out_height, out_width, len(weight)), np.int64)
    for row, column in window.taps():
        out += padded[window.read(row, column, out_height, out_width)] @ weight[:, row, column].T
    return out


def correlate_input_gradient(gradient: Integers, weight: Integers, window: Window, height: int, width: int) -> Integers:
    """Gradient of `correlate` by its input before padding, [N, height, width, C_in]."""
    out_height, out_width = gradient.shape[1:3]
    p = window.padding
    padded = np.zeros((len(gradient), height + 2 * p, width + 2 * p, weight.shape[3]), np.int64)
    for row, column in window.taps():
        padded[window.read(row, column, out_height, out_width)] += gradient @ weight[:, row, column]
    return window.crop(padded)


def correlate_weight_gradient(gradient: Integers, padded: Integers, window: Window, bits: int = 16) -> Integers:
    """Gradient of `correlate` by its weight, [C_out, height, width, C_in]; bits: of the input, for its products."""
    out_height, out_width, channels = gradient.shape[1:]
    weight = np.zeros((channels, window.height, window.width, padded.shape[3]), np.int64)
    rows = gradient.reshape(-1, channels)
    for row, column in window.taps():
        patch = padded[window.read(row, column, out_height, out_width)]
        weight[:, row, column] = product_sum(rows, patch.reshape(-1, padded.shape[3]), bits)
    return weight
