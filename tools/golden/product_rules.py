"""What kernels that multiply must compute: docs/arithmetic.md and their headers, on drawn numbers.

Every rule draws what its function in engine/selftest draws, in the same order.
"""

from __future__ import annotations

import numpy as np

from golden.draws import Digest, Draws, Words
from golden.loop_rules import zero_point_of
from reference.fixed_point import Integers, int64, rshift


def _signs(words: Words, count: int) -> Integers:
    """Words [..., n] -> +-1 [..., count], lowest bit first."""
    bits = np.unpackbits(np.ascontiguousarray(words).astype("<u8").view(np.uint8), axis=-1, bitorder="little")
    return np.where(bits[..., :count] == 1, 1, -1).astype(np.int64)


def xnor_gemm(digest: Digest, draws: Draws, second: str, rows: int, K: int, columns: int) -> None:
    words, blocks = (K + 63) // 64, (columns + 7) // 8
    a = draws.bit_words(rows * words).reshape(rows, words)
    draws.fill = second
    b = draws.bit_words(blocks * words * 8).reshape(blocks, words, 8).transpose(0, 2, 1).reshape(blocks * 8, words)
    digest.add(_signs(a, K) @ _signs(b, K)[:columns].T)


def sign_gemm(digest: Digest, draws: Draws, second: str, bits: int, rows: int, length: int, absent: int) -> None:
    g = draws.integers(rows * length, bits, True).reshape(rows, length)
    draws.fill = second
    signs = _signs(draws.bit_words(length)[:, None], 64)
    if absent:
        signs = signs * int64(draws.words(length) % np.uint64(2))[:, None]
    digest.add(g @ signs)


def int_gemm(digest: Digest, draws: Draws, second: str, rows: int, length: int, columns: int) -> None:
    a = draws.integers(rows * length, 16, False).reshape(rows, length)
    draws.fill = second
    digest.add(a @ draws.integers(columns * length, 8, False).reshape(columns, length).T)


def depthwise(
    digest: Digest, draws: Draws, second: str, x_bits: int, g_bits: int, kernel: int, stride: int, channels: int
) -> None:
    side, padding = kernel + 2, kernel // 2
    out = (side + 2 * padding - kernel) // stride + 1
    x = draws.integers(side * side * channels, x_bits, False).reshape(side, side, channels)
    g = draws.integers(out * out * channels, g_bits, True).reshape(out, out, channels)
    draws.fill = second
    w = draws.numbers(kernel * kernel * channels, -128, 127).reshape(kernel, kernel, channels)
    zero_point = zero_point_of(draws, x_bits)
    border = ((padding, padding), (padding, padding), (0, 0))
    padded = np.pad(x if x_bits == 32 else x - zero_point, border)
    sums, input_sums, weight_sums = np.zeros_like(g), np.zeros_like(padded), np.zeros_like(w)
    for tap in np.ndindex(kernel, kernel):
        read = tuple(slice(start, start + stride * (out - 1) + 1, stride) for start in tap)
        sums += padded[read] * w[tap]
        input_sums[read] += g * w[tap]
        products = g * padded[read]
        weight_sums[tap] = (rshift(products, 16) if x_bits == 32 else products).sum(axis=(0, 1))
    digest.add(sums)
    digest.add(input_sums[padding : padding + side, padding : padding + side])
    digest.add(weight_sums)


def _cell_of(tap: int) -> int:
    """Where a tap's cell lies in a map seven cells wide, three taps to a row."""
    return tap // 3 * 7 + tap % 3


def sign_convolution(
    digest: Digest, draws: Draws, second: str, channels: int, blocks: int, places: int, taps: int, empty: int
) -> None:
    words, pixels = (channels + 63) // 64, places + _cell_of(taps - 1)
    cells = _signs(draws.bit_words(pixels * words).reshape(pixels, words), channels)
    if empty:
        cells[::3] = 0
    draws.fill = second
    packed = draws.bit_words(blocks * taps * words * 8).reshape(blocks, taps, words, 8)
    weights = _signs(packed.transpose(0, 3, 1, 2).reshape(blocks * 8, taps, words), channels)
    sums = sum(cells[_cell_of(tap) :][:places] @ weights[:, tap].T for tap in range(taps))
    for _ in range(2):  # with a panel, and without
        digest.add([(taps * words + 2) // 3])
        digest.add(sums)


def sign_gradient(
    digest: Digest, draws: Draws, second: str, bits: int, channels: int, words: int, taps: int, places: int
) -> None:
    pixels, blocks = places + _cell_of(taps - 1), (channels + 7) // 8
    g = draws.integers(pixels * channels, bits, True).reshape(pixels, channels)
    draws.fill = second
    packed = draws.bit_words(blocks * taps * words * 8).reshape(blocks, taps, words, 8)
    weights = packed.transpose(2, 1, 0, 3).reshape(words, taps, blocks * 8)[:, :, :channels]
    for word in weights:
        digest.add(sum(g[_cell_of(tap) :][:places] @ _signs(word[tap][:, None], 64) for tap in range(taps)))


def packed_gemm(
    digest: Digest, draws: Draws, second: str, bits: int, rows: int, segments: int, length: int, columns: int
) -> None:
    stride, spare = 3, 3 if bits == 8 else 1
    segment_stride = rows * stride + length + 1
    values = draws.integers((segments - 1) * segment_stride + (rows - 1) * stride + length + spare, bits, False)
    draws.fill = second
    w = draws.integers(columns * segments * length, 8, False).reshape(columns, segments * length)
    places = np.arange(rows)[:, None, None] * stride + np.arange(segments)[:, None] * segment_stride + np.arange(length)
    digest.add(values[places].reshape(rows, -1) @ w.T)


def dot(digest: Digest, draws: Draws, second: str, w_bits: int, x_bits: int, count: int) -> None:
    w, x = draws.integers(count, w_bits, False), draws.integers(count, x_bits, False)
    draws.fill = second
    digest.add([int(w @ (x - zero_point_of(draws, x_bits)))])
