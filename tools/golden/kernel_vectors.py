"""Vectors of the kernels: shapes, fills, and what docs/arithmetic.md and the kernels' headers say comes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from golden.draws import FILLS, Digest, Draws, Words, top
from reference.fixed_point import Integers, affine, draws_at, int64, rshift, sat, sats, scale, scale_randomly

MAX_OFFSET = 2**29


@dataclass(frozen=True)
class KernelVector:
    """One call: family (a key of FAMILIES), its parameters, the fills of its two groups of inputs, the seed."""

    family: str
    parameters: tuple[int, ...]
    fills: tuple[str, str]
    seed: int

    @property
    def name(self) -> str:
        fills = "" if self.fills == ("random", "random") else " " + " ".join(self.fills)
        return f"{self.family} {' '.join(map(str, self.parameters))}{fills}"

    def golden(self) -> int:
        digest = Digest()
        draws = Draws(self.seed, self.fills[0])
        FAMILIES[self.family](digest, draws, self.fills[1], *self.parameters)
        return digest.value

    def initializer(self) -> str:
        """The entry of the C++ table."""
        parameters = ", ".join(map(str, self.parameters))
        fills = ", ".join(f"Fill::k{fill.title()}" for fill in self.fills)
        family = list(FAMILIES).index(self.family)
        return f'{{"{self.name}", {family}, {{{parameters}}}, {{{fills}}}, {self.seed}, {self.golden():#018x}}},'


def _signs(words: Words, count: int) -> Integers:
    """Words [..., n] -> +-1 [..., count], lowest bit first."""
    bits = np.unpackbits(np.ascontiguousarray(words).astype("<u8").view(np.uint8), axis=-1, bitorder="little")
    return np.where(bits[..., :count] == 1, 1, -1).astype(np.int64)


def _xnor_gemm(digest: Digest, draws: Draws, second: str, rows: int, K: int, columns: int) -> None:
    words, blocks = (K + 63) // 64, (columns + 7) // 8
    a = draws.bit_words(rows * words).reshape(rows, words)
    draws.fill = second
    b = draws.bit_words(blocks * words * 8).reshape(blocks, words, 8).transpose(0, 2, 1).reshape(blocks * 8, words)
    digest.add(_signs(a, K) @ _signs(b, K)[:columns].T)


def _sign_gemm(digest: Digest, draws: Draws, second: str, bits: int, rows: int, length: int, absent: int) -> None:
    g = draws.integers(rows * length, bits, True).reshape(rows, length)
    draws.fill = second
    signs = _signs(draws.bit_words(length)[:, None], 64)
    if absent:
        signs = signs * int64(draws.words(length) % np.uint64(2))[:, None]
    digest.add(g @ signs)


def _int_gemm(digest: Digest, draws: Draws, second: str, rows: int, length: int, columns: int) -> None:
    a = draws.integers(rows * length, 16, False).reshape(rows, length)
    draws.fill = second
    digest.add(a @ draws.integers(columns * length, 8, False).reshape(columns, length).T)


def _depthwise(
    digest: Digest, draws: Draws, second: str, x_bits: int, g_bits: int, kernel: int, stride: int, channels: int
) -> None:
    side, padding = kernel + 2, kernel // 2
    out = (side + 2 * padding - kernel) // stride + 1
    x = draws.integers(side * side * channels, x_bits, False).reshape(side, side, channels)
    g = draws.integers(out * out * channels, g_bits, True).reshape(out, out, channels)
    draws.fill = second
    w = draws.numbers(kernel * kernel * channels, -128, 127).reshape(kernel, kernel, channels)
    zero_point = _zero_point(draws, x_bits)
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


def _affine_constants(draws: Draws, channels: int) -> tuple[Integers, Integers, Integers]:
    A = draws.numbers(channels, -(2**15), 2**15 - 1)
    B = draws.numbers(channels, -MAX_OFFSET, MAX_OFFSET)
    return A, B, int64(draws.words(channels) % np.uint64(30))


def _zero_point(draws: Draws, bits: int) -> int:
    return draws.number(-top(bits) - 1, top(bits))


def _affine(digest: Digest, draws: Draws, second: str, x_bits: int, y_bits: int, pixels: int, channels: int) -> None:
    x = draws.integers(pixels * channels, x_bits, False).reshape(pixels, channels)
    draws.fill = second
    constants = _affine_constants(draws, channels)
    digest.add(sat(_zero_point(draws, y_bits) + affine(x, *constants), y_bits))


def _add(digest: Digest, draws: Draws, second: str, x0_bits: int, x1_bits: int, y_bits: int, count: int) -> None:
    x0, x1 = draws.integers(count, x0_bits, False), draws.integers(count, x1_bits, False)
    draws.fill = second
    A0, A1 = draws.number(1 - 2**13, 2**13 - 1), draws.number(1 - 2**13, 2**13 - 1)
    B, s = draws.number(-MAX_OFFSET, MAX_OFFSET), draws.below(30)
    total = rshift(x0 * A0 + x1 * A1 + B, s)
    digest.add(sat(_zero_point(draws, y_bits) + total, y_bits))


def _sign(digest: Digest, draws: Draws, second: str, bits: int, pixels: int, channels: int) -> None:
    x = draws.integers(pixels * channels, bits, False).reshape(pixels, channels)
    draws.fill = second
    threshold = draws.integers(channels, bits, False)
    padded = np.zeros((pixels, (channels + 63) // 64 * 64), np.uint8)
    padded[:, :channels] = x >= threshold
    digest.add(np.packbits(padded, axis=-1, bitorder="little").view("<u8").astype(np.uint64))


def _requantize(
    digest: Digest, draws: Draws, second: str, sum_bits: int, y_bits: int, pixels: int, channels: int, one: int
) -> None:
    sums = draws.integers(pixels * channels, sum_bits, False).reshape(pixels, channels)
    draws.fill = second
    offset = draws.integers(channels, sum_bits, False)
    least, most = (-40, 8) if sum_bits > 31 else (-31, 0)
    scales = [draws.scale(least, most) for _ in range(1 if one else channels)]
    by = scale(sums + offset, type(scales[0])(*(int64(column) for column in zip(*scales, strict=True))))
    digest.add(sat(_zero_point(draws, y_bits) + by, y_bits))


def _norm(
    digest: Digest, draws: Draws, second: str, x_bits: int, y_bits: int, pixels: int, channels: int, wide: int
) -> None:
    x = draws.integers(pixels * channels, x_bits, False).reshape(pixels, channels)
    draws.fill = second
    xhat = sat(affine(x, *_affine_constants(draws, channels)), 16)
    gamma = draws.numbers(channels, 1 - 2**15, 2**15 - 1)
    beta = draws.numbers(channels, -(2**31), 2**31 - 1)
    output = draws.scale(*((1, 8) if wide else (-31, 0)))
    digest.add(xhat)
    y = scale(sat(gamma * xhat + beta, 32), output)
    digest.add(sat(_zero_point(draws, y_bits) + y, y_bits))


def _magnitude(digest: Digest, draws: Draws, second: str, count: int) -> None:
    digest.add(np.bitwise_or.reduce(np.abs(draws.integers(count, 32, False)), initial=0))


def _narrow(digest: Digest, draws: Draws, second: str, bits: int, count: int, shift: int) -> None:
    digest.add(sats(rshift(draws.integers(count, 32, False), shift), bits))


def _merge(
    digest: Digest, draws: Draws, second: str, bits: int, count: int, shift: int, sum_shift: int, before_shift: int
) -> None:
    sums = draws.numbers(count, -(2**30), 2**30)
    draws.fill = second
    before = draws.integers(count, bits, True)
    digest.add(rshift(sats(rshift(sums, shift), bits), sum_shift) + rshift(before, before_shift))


def _estimator(
    digest: Digest, draws: Draws, second: str, x_bits: int, g_bits: int, pixels: int, channels: int, kind: int
) -> None:
    x = draws.integers(pixels * channels, x_bits, False).reshape(pixels, channels)
    g = draws.integers(pixels * channels, g_bits, True).reshape(pixels, channels)
    draws.fill = second
    bias = draws.integers(channels, 32, False)
    to_real = draws.scale(-8, 14)
    u = scale(x - _zero_point(draws, x_bits), to_real)
    clip = draws.number(0, 2**31 - 1)
    size = np.abs(sat(u + bias, 32) if kind >= 2 else u)
    digest.add(g * (np.maximum(0, 2**15 - (size >> 1)) if kind % 2 else size <= clip))


def _channel_sum(digest: Digest, draws: Draws, second: str, pixels: int, channels: int) -> None:
    digest.add(draws.integers(pixels * channels, 32, False).reshape(pixels, channels).sum(axis=0))


def _norm_gradient(digest: Digest, draws: Draws, second: str, bits: int, pixels: int, channels: int) -> None:
    g = draws.integers(pixels * channels, bits, True).reshape(pixels, channels)
    draws.fill = second
    xhat = draws.integers(pixels * channels, 16, False).reshape(pixels, channels)
    digest.add(g * draws.numbers(channels, -(2**15), 2**15))
    digest.add((g * xhat).sum(axis=0))
    digest.add(g.sum(axis=0))


def _update(digest: Digest, draws: Draws, second: str, width: int, count: int, exponent: int, stochastic: int) -> None:
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


FAMILIES: dict[str, Callable[..., None]] = {
    "xnor_gemm": _xnor_gemm,
    "sign_gemm": _sign_gemm,
    "int_gemm": _int_gemm,
    "depthwise": _depthwise,
    "affine": _affine,
    "add": _add,
    "sign": _sign,
    "requantize": _requantize,
    "norm": _norm,
    "magnitude": _magnitude,
    "narrow": _narrow,
    "merge": _merge,
    "estimator": _estimator,
    "channel_sum": _channel_sum,
    "norm_gradient": _norm_gradient,
    "update": _update,
}
"""Families by the name of their kernel, in the order of kFamilies in engine/selftest/kernels.cc."""

ANY = ("random", "random")
EVERY_END = [(first, second) for first in FILLS[1:3] for second in FILLS[1:3]]

_CASES: list[tuple[str, list[tuple[int, ...]], list[tuple[str, str]]]] = [
    # rows, K, columns; 31 words and one more, where counters of bytes are emptied; the most terms
    (
        "xnor_gemm",
        [(1, 1, 1), (3, 130, 9), (5, 64, 8), (9, 37, 17), (4, 1152, 16), (2, 2049, 25), (1, 32767, 3)],
        [ANY],
    ),
    ("xnor_gemm", [(5, 1984, 17), (5, 2048, 17), (5, 32767, 9)], EVERY_END),
    # bits, rows, length, absent terms; the most terms of 16 bits
    ("sign_gemm", [(16, 1, 1, 0), (16, 3, 7, 1), (16, 5, 64, 0), (16, 7, 193, 1), (16, 13, 257, 0)], [ANY]),
    ("sign_gemm", [(16, 17, 520, 1), (16, 33, 63, 0)], [ANY]),
    ("sign_gemm", [(16, 7, 65538, 0)], [*EVERY_END, ("ends", "random")]),
    ("sign_gemm", [(8, 1, 1, 0), (8, 3, 7, 1), (8, 5, 64, 0), (8, 7, 193, 1), (8, 17, 520, 1)], [ANY]),
    ("sign_gemm", [(8, 7, 65538, 0), (8, 5, 258, 0)], [*EVERY_END, ("ends", "random")]),
    ("sign_gemm", [(32, 1, 1, 1), (32, 3, 130, 0), (32, 2, 67, 1)], [ANY]),
    ("sign_gemm", [(32, 1, 65538, 0)], EVERY_END),
    # rows, length, columns; 511 terms fit int32, 512 do not
    ("int_gemm", [(1, 1, 1), (3, 17, 5), (5, 16, 4), (16, 147, 7), (2, 576, 9)], [ANY]),
    ("int_gemm", [(2, 511, 5), (2, 512, 5), (2, 513, 5), (3, 8192, 5)], [*EVERY_END, ("ends", "ends")]),
    # bits of x, bits of g, side of the kernel, stride, channels; 225 taps, of at most 255
    (
        "depthwise",
        [(8, 8, 3, 1, 37), (16, 16, 3, 2, 65), (8, 32, 2, 1, 3), (32, 16, 3, 1, 5), (32, 32, 3, 2, 16)],
        [ANY],
    ),
    ("depthwise", [(16, 16, 15, 1, 3), (8, 8, 15, 2, 3), (32, 32, 5, 1, 3)], [*EVERY_END, ("ends", "ends")]),
    # bits of x, bits of y, pixels, channels
    ("affine", [(x, y, 3, channels) for x in (8, 16) for y in (8, 16) for channels in (1, 37)], [ANY]),
    ("affine", [(16, 16, 2, 65)], [*EVERY_END, ("ends", "ends")]),
    # bits of both inputs, bits of the output, count
    ("add", [(x0, x1, y, 67) for x0 in (8, 16) for x1 in (8, 16) for y in (8, 16)], [ANY]),
    ("add", [(16, 16, 16, 33)], [*EVERY_END, ("ends", "ends")]),
    # bits, pixels, channels
    ("sign", [(8, 1, 1), (8, 3, 65), (16, 2, 130), (16, 5, 37), (32, 3, 67)], [ANY, ("ends", "ends")]),
    # bits of the sums, bits of y, pixels, channels, one multiplier in all
    ("requantize", [(20, 8, 3, 37, 0), (24, 16, 3, 65, 1), (31, 8, 2, 37, 0), (48, 16, 2, 37, 0)], [ANY]),
    ("requantize", [(30, 16, 2, 33, 0), (31, 16, 2, 33, 1), (48, 8, 2, 33, 0)], EVERY_END),
    # bits of x, bits of y, pixels, channels, an exponent above 0
    ("norm", [(8, 8, 3, 37, 0), (16, 8, 2, 65, 0), (8, 16, 2, 3, 0), (16, 16, 3, 37, 1)], [ANY]),
    ("norm", [(16, 16, 2, 33, 0), (16, 16, 2, 33, 1)], [*EVERY_END, ("ends", "ends")]),
    # count
    ("magnitude", [(1,), (37,), (130,)], [ANY, ("lowest", "random"), ("ends", "random")]),
    # bits, count, shift
    ("narrow", [(bits, 67, shift) for bits in (8, 16) for shift in (0, 1, 17, 31)], [ANY, ("ends", "random")]),
    # bits, count, shifts of the sums, of the quantized sums, of what was there
    ("merge", [(8, 67, 23, 0, 3), (8, 37, 0, 1, 0), (16, 67, 15, 2, 0), (16, 1, 0, 0, 1)], [ANY, ("ends", "ends")]),
    # bits of x, bits of g, pixels, channels, approximate + 2 with a bias
    ("estimator", [(x, g, 3, 37, kind) for x, g in ((8, 16), (16, 8)) for kind in range(4)], [ANY]),
    ("estimator", [(16, 16, 2, 33, kind) for kind in range(4)], [*EVERY_END, ("ends", "ends")]),
    # pixels, channels
    ("channel_sum", [(1, 1), (37, 65), (300, 3)], [ANY, ("lowest", "random"), ("ends", "random")]),
    # bits, pixels, channels
    ("norm_gradient", [(8, 5, 37), (16, 7, 65)], [ANY, *EVERY_END, ("ends", "ends")]),
    # width, count, exponent of the step, stochastic rounding
    (
        "update",
        [
            (8, 1, 0, 0),
            (8, 37, -24, 0),
            (16, 64, -17, 0),
            (16, 63, -31, 0),
            (8, 64, -40, 0),
            (16, 5, 3, 0),
            (32, 61, -2, 0),
        ],
        [ANY, *EVERY_END, ("ends", "ends")],
    ),
    ("update", [(8, 37, -26, 1), (16, 64, -17, 1), (32, 61, -9, 1), (16, 9, 2, 1)], [ANY, ("ends", "ends")]),
]

KERNEL_VECTORS = [
    KernelVector(family, parameters, fills, seed)
    for seed, (family, parameters, fills) in enumerate(
        (family, parameters, fills)
        for family, shapes, all_fills in _CASES
        for fills in all_fills
        for parameters in shapes
    )
]
