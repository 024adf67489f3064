"""What kernels that loop over numbers must compute: docs/arithmetic.md and their headers, on drawn numbers.

Every rule draws what its function in engine/selftest draws, in the same order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from golden.draws import Digest, Draws, Words, top
from reference import fixed_point
from reference.fixed_point import Integers, Scale, draws_at, int64, rshift, sat, sats, scale, scale_randomly

MAX_OFFSET = 2**29


def zero_point_of(draws: Draws, bits: int) -> int:
    return draws.number(-top(bits) - 1, top(bits))


def _sign_words(bits: NDArray[np.bool_]) -> Words:
    """[pixels, channels] -> [pixels, words], each pixel starting a new word."""
    padded = np.zeros((len(bits), (bits.shape[1] + 63) // 64 * 64), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.packbits(padded, axis=-1, bitorder="little").view("<u8").astype(np.uint64)


def _scales(draws: Draws, count: int, least: int, most: int) -> Scale:
    """`count` Scales as arrays."""
    scales = [draws.scale(least, most) for _ in range(count)]
    return Scale(*(int64(column) for column in zip(*scales, strict=True)))


def affine_constants(draws: Draws, channels: int) -> tuple[Integers, Integers, Integers]:
    A = draws.numbers(channels, -(2**15), 2**15 - 1)
    B = draws.numbers(channels, -MAX_OFFSET, MAX_OFFSET)
    return A, B, int64(draws.words(channels) % np.uint64(30))


def affine(digest: Digest, draws: Draws, second: str, x_bits: int, y_bits: int, pixels: int, channels: int) -> None:
    x = draws.integers(pixels * channels, x_bits, False).reshape(pixels, channels)
    draws.fill = second
    constants = affine_constants(draws, channels)
    digest.add(sat(zero_point_of(draws, y_bits) + fixed_point.affine(x, *constants), y_bits))


def add(digest: Digest, draws: Draws, second: str, x0_bits: int, x1_bits: int, y_bits: int, count: int) -> None:
    x0, x1 = draws.integers(count, x0_bits, False), draws.integers(count, x1_bits, False)
    draws.fill = second
    A0, A1 = draws.number(1 - 2**13, 2**13 - 1), draws.number(1 - 2**13, 2**13 - 1)
    B, s = draws.number(-MAX_OFFSET, MAX_OFFSET), draws.below(30)
    total = rshift(x0 * A0 + x1 * A1 + B, s)
    digest.add(sat(zero_point_of(draws, y_bits) + total, y_bits))


def sign(digest: Digest, draws: Draws, second: str, bits: int, pixels: int, channels: int) -> None:
    x = draws.integers(pixels * channels, bits, False).reshape(pixels, channels)
    draws.fill = second
    threshold = draws.integers(channels, bits, False)
    digest.add(_sign_words(x >= threshold))


def requantize(
    digest: Digest, draws: Draws, second: str, sum_bits: int, y_bits: int, pixels: int, channels: int, one: int
) -> None:
    sums = draws.integers(pixels * channels, sum_bits, False).reshape(pixels, channels)
    draws.fill = second
    offset = draws.integers(channels, sum_bits, False)
    least, most = (-40, 8) if sum_bits > 31 else (-31, 0)
    by = scale(sums + offset, _scales(draws, 1 if one else channels, least, most))
    digest.add(sat(zero_point_of(draws, y_bits) + by, y_bits))


def norm(
    digest: Digest, draws: Draws, second: str, x_bits: int, y_bits: int, pixels: int, channels: int, wide: int
) -> None:
    x = draws.integers(pixels * channels, x_bits, False).reshape(pixels, channels)
    draws.fill = second
    xhat = sat(fixed_point.affine(x, *affine_constants(draws, channels)), 16)
    gamma = draws.numbers(channels, 1 - 2**15, 2**15 - 1)
    beta = draws.numbers(channels, -(2**31), 2**31 - 1)
    output = draws.scale(*((1, 8) if wide else (-31, 0)))
    digest.add(xhat)
    y = scale(sat(gamma * xhat + beta, 32), output)
    digest.add(sat(zero_point_of(draws, y_bits) + y, y_bits))


def magnitude(digest: Digest, draws: Draws, second: str, count: int) -> None:
    digest.add(np.bitwise_or.reduce(np.abs(draws.integers(count, 32, False)), initial=0))


def narrow(digest: Digest, draws: Draws, second: str, bits: int, count: int, shift: int) -> None:
    digest.add(sats(rshift(draws.integers(count, 32, False), shift), bits))


def merge(
    digest: Digest, draws: Draws, second: str, bits: int, count: int, shift: int, sum_shift: int, before_shift: int
) -> None:
    sums = draws.numbers(count, -(2**30), 2**30)
    draws.fill = second
    before = draws.integers(count, bits, True)
    digest.add(rshift(sats(rshift(sums, shift), bits), sum_shift) + rshift(before, before_shift))


def estimator(
    digest: Digest, draws: Draws, second: str, x_bits: int, g_bits: int, pixels: int, channels: int, kind: int
) -> None:
    x = draws.integers(pixels * channels, x_bits, False).reshape(pixels, channels)
    g = draws.integers(pixels * channels, g_bits, True).reshape(pixels, channels)
    draws.fill = second
    bias = draws.integers(channels, 32, False)
    to_real = draws.scale(-8, 14)
    u = scale(x - zero_point_of(draws, x_bits), to_real)
    clip = draws.number(0, 2**31 - 1)
    size = np.abs(sat(u + bias, 32) if kind >= 2 else u)
    digest.add(g * (np.maximum(0, 2**15 - (size >> 1)) if kind % 2 else size <= clip))


def channel_sum(digest: Digest, draws: Draws, second: str, pixels: int, channels: int) -> None:
    digest.add(draws.integers(pixels * channels, 32, False).reshape(pixels, channels).sum(axis=0))


def norm_gradient(digest: Digest, draws: Draws, second: str, bits: int, pixels: int, channels: int) -> None:
    g = draws.integers(pixels * channels, bits, True).reshape(pixels, channels)
    draws.fill = second
    xhat = draws.integers(pixels * channels, 16, False).reshape(pixels, channels)
    digest.add(g * draws.numbers(channels, -(2**15), 2**15))
    digest.add((g * xhat).sum(axis=0))
    digest.add(g.sum(axis=0))


def update(digest: Digest, draws: Draws, second: str, width: int, count: int, exponent: int, stochastic: int) -> None:
    weights = draws.integers(count, width, True)
    draws.fill = second
    sums = draws.integers(count, 32, False)
    step, key = draws.scale(exponent, exponent), int(draws.words(1)[0])
    if stochastic:
        moved = scale_randomly(sums, step, int64(draws_at(key, np.arange(5, 5 + count)) >> np.uint64(32)))
    else:
        moved = scale(sums, step)
    weights = sats(weights - moved, width)
    digest.add(np.array([sum(1 << i for i in range(count) if weights[i] >= 0)], np.uint64))
    digest.add(weights)


def short_requantize(
    digest: Digest, draws: Draws, second: str, y_bits: int, pixels: int, channels: int, one: int, exponents: int
) -> None:
    half = 2**30
    sums = draws.numbers(pixels * channels, -half, half).reshape(pixels, channels)
    draws.fill = second
    offset = draws.numbers(channels, 1 - half, half - 1)
    least, most = (-31, 0) if exponents > 0 else (exponents, exponents)
    by = scale(sums + offset, _scales(draws, 1 if one else channels, least, most))
    digest.add(sat(zero_point_of(draws, y_bits) + by, y_bits))


def epilogue(
    digest: Digest, draws: Draws, second: str, bits: int, sum_bits: int, follows: int, places: int, channels: int
) -> None:
    """follows: 1 clamp, 2 affine, 4 add, 8 sign, 16 values kept; 32: constants under which few values saturate."""
    values = draws.integers(places * channels, 16, False).reshape(places, channels)
    shortcut = draws.integers(places * channels, bits, False).reshape(places, channels)
    draws.fill = second
    constants = affine_constants(draws, channels)
    low, high = draws.number(-(2**15) - 1, 0), draws.number(0, 2**15)
    affine_zero, add_zero = zero_point_of(draws, bits), zero_point_of(draws, bits)
    A0, A1 = draws.number(1 - 2**13, 2**13 - 1), draws.number(1 - 2**13, 2**13 - 1)
    B, s = draws.number(-MAX_OFFSET, MAX_OFFSET), draws.below(30)
    threshold = draws.numbers(channels, -(2**bits), 2**bits)
    if follows & 32:
        A, offset, shifts = constants
        constants = (A >> 6, offset >> 16, 8 + shifts % 8)
        A0, A1, B, s = A0 >> 4, A1 >> 4, B >> 14, 6 + s % 8
    if follows & 1:
        values = np.clip(values, low, high)
    if follows & 2:
        values = sat(affine_zero + fixed_point.affine(values, *constants), bits)
    if follows & 4:
        values = sat(add_zero + rshift(values * A0 + shortcut * A1 + B, s), bits)
    if follows & 16:
        digest.add(values)
    if follows & 8:
        wide = np.ones((places, (channels + 63) // 64 * 64), bool)  # bytes of no column are not written
        wide[:, : (channels + 7) // 8 * 8] = False
        wide[:, :channels] = values >= threshold
        digest.add(_sign_words(wide))


def prelu(
    digest: Digest, draws: Draws, second: str, x_bits: int, y_bits: int, pixels: int, channels: int, slope_shift: int
) -> None:
    x = draws.integers(pixels * channels, x_bits, False).reshape(pixels, channels)
    draws.fill = second
    pre = draws.integers(channels, 32, False)
    slope = draws.integers(channels, 16, True)
    post = draws.integers(channels, 32, False)
    to_real, output = draws.scale(-31, 14), draws.scale(-31, 0)
    u = sat(scale(x - zero_point_of(draws, x_bits), to_real) + pre, 32)
    v = np.where(u > 0, u, sat(rshift(slope * u, slope_shift), 32))
    zero_point = zero_point_of(draws, y_bits) if y_bits < 32 else 0
    digest.add(sat(zero_point + scale(sat(v + post, 32), output), y_bits))


def maximum(digest: Digest, draws: Draws, second: str, bits: int, count: int) -> None:
    x = draws.integers(count, bits, False)
    draws.fill = second
    digest.add(np.maximum(x, draws.integers(count, bits, False)))


def shift(digest: Digest, draws: Draws, second: str, bits: int, count: int, by: int) -> None:
    sums = draws.numbers(count, 1 - 2**30, 2**30 - 1)
    draws.fill = second
    digest.add(sat(zero_point_of(draws, bits) + rshift(sums, by), bits))


def image(digest: Digest, draws: Draws, second: str, count: int) -> None:
    u = draws.numbers(count, 0, 255)
    draws.fill = second
    digest.add(sat(2 * u - zero_point_of(draws, 16), 16))


def weights(digest: Digest, draws: Draws, second: str, width: int, count: int) -> None:
    digest.add(sats(rshift(draws.integers(count, width, True), width - 8), 8))


def weight_sums(digest: Digest, draws: Draws, second: str, count: int) -> None:
    w = draws.integers(count, 8, False)
    digest.add([int(w.sum()), int(np.abs(w).sum())])


def prelu_gradient(
    digest: Digest, draws: Draws, second: str, x_bits: int, g_bits: int, pixels: int, channels: int, up: int
) -> None:
    x = draws.integers(pixels * channels, x_bits, False).reshape(pixels, channels)
    g = draws.integers(pixels * channels, g_bits, True).reshape(pixels, channels)
    draws.fill = second
    pre = draws.integers(channels, 32, False)
    slope = draws.integers(channels, 16, True)
    to_real = draws.scale(-31, 14)
    u = sat(scale(x - zero_point_of(draws, x_bits), to_real) + pre, 32)
    sums = g * np.where(u > 0, 2**up, slope)
    digest.add(sums)
    digest.add(sums.sum(axis=0))
    digest.add((g * sat(rshift(np.minimum(u, 0), 5), 16)).sum(axis=0))
    digest.add(g.sum(axis=0))


def mask(digest: Digest, draws: Draws, second: str, x_bits: int, g_bits: int, count: int, beyond: int) -> None:
    x, g = draws.integers(count, x_bits, False), draws.integers(count, g_bits, True)
    draws.fill = second
    low, high = draws.number(-top(x_bits) - 1 - beyond, 0), draws.number(0, top(x_bits) + beyond)
    digest.add(np.where((low < x) & (x < high), g, 0))
