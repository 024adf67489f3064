"""Vectors of the kernels: their shapes and fills."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from golden import loop_rules as loops
from golden import product_rules as products
from golden.draws import FILLS, Digest, Draws


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


FAMILIES: dict[str, Callable[..., None]] = {
    "xnor_gemm": products.xnor_gemm,
    "sign_gemm": products.sign_gemm,
    "int_gemm": products.int_gemm,
    "depthwise": products.depthwise,
    "affine": loops.affine,
    "add": loops.add,
    "sign": loops.sign,
    "requantize": loops.requantize,
    "norm": loops.norm,
    "magnitude": loops.magnitude,
    "narrow": loops.narrow,
    "merge": loops.merge,
    "estimator": loops.estimator,
    "channel_sum": loops.channel_sum,
    "norm_gradient": loops.norm_gradient,
    "update": loops.update,
    "sign_convolution": products.sign_convolution,
    "sign_gradient": products.sign_gradient,
    "packed_gemm": products.packed_gemm,
    "short_requantize": loops.short_requantize,
    "epilogue": loops.epilogue,
    "dot": products.dot,
    "prelu": loops.prelu,
    "maximum": loops.maximum,
    "shift": loops.shift,
    "image": loops.image,
    "weights": loops.weights,
    "weight_sums": loops.weight_sums,
    "prelu_gradient": loops.prelu_gradient,
    "mask": loops.mask,
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
    # channels, blocks of eight columns, places, taps, empty cells; the most terms
    (
        "sign_convolution",
        [
            (1, 1, 1, 1, 0),
            (3, 2, 15, 9, 1),
            (37, 1, 16, 9, 0),
            (64, 2, 17, 9, 1),
            (65, 2, 37, 6, 0),
            (130, 1, 48, 9, 1),
            (128, 2, 49, 3, 0),
            (64, 2, 64, 1, 0),
            (257, 2, 63, 2, 1),
        ],
        [ANY],
    ),
    ("sign_convolution", [(32767, 2, 3, 1, 0), (64, 1, 64, 1, 0)], EVERY_END),
    # bits of a gradient, channels of the output, words of the input, taps, places; the most terms
    (
        "sign_gradient",
        [
            (8, 1, 1, 1, 1),
            (16, 1, 1, 1, 1),
            (8, 37, 2, 9, 17),
            (16, 37, 2, 9, 17),
            (8, 65, 1, 4, 64),
            (16, 65, 1, 4, 64),
            (16, 130, 3, 9, 33),
            (8, 64, 1, 9, 48),
        ],
        [ANY, ("ends", "random")],
    ),
    ("sign_gradient", [(16, 3640, 1, 9, 1)], [("lowest", "lowest"), ("lowest", "highest"), ("ends", "random")]),
    # bits, rows, segments, length of a segment, columns
    (
        "packed_gemm",
        [
            (8, 1, 1, 1, 1),
            (16, 1, 1, 1, 1),
            (8, 5, 3, 9, 37),
            (16, 5, 3, 9, 37),
            (8, 4, 1, 64, 65),
            (16, 9, 1, 37, 64),
            (8, 7, 3, 111, 130),
            (16, 3, 3, 65, 48),
            (8, 6, 2, 6, 16),
        ],
        [ANY, ("ends", "ends")],
    ),
    # 511 products of 2^15 by 2^7 and 65535 of 2^7 by 2^7: one more reaches the bound
    ("packed_gemm", [(16, 5, 7, 73, 17), (8, 2, 1, 65535, 2)], EVERY_END),
    # bits of y, pixels, channels, one multiplier in all, its exponent (1: any)
    (
        "short_requantize",
        [(8, 3, 37, 0, 1), (16, 3, 65, 0, 1), (8, 5, 1, 1, 1), (16, 2, 130, 1, 1)],
        [ANY, ("ends", "random")],
    ),
    (
        "short_requantize",
        [(bits, 2, 33, 0, exponent) for bits in (8, 16) for exponent in (0, -14, -31)],
        [ANY, *EVERY_END, ("ends", "ends")],
    ),
    # bits, bits of a sum, what follows, places, channels
    (
        "epilogue",
        [
            (bits, sum_bits, follows, places, channels)
            for bits in (8, 16)
            for sum_bits, places, channels in ((16, 3, 37), (32, 5, 24))
            for follows in (18, 19, 10, 27, 22, 14, 31, 50, 42, 54, 46, 63)
        ],
        [ANY],
    ),
    ("epilogue", [(16, 16, 8, 3, 65), (16, 32, 9, 2, 23)], [ANY, ("ends", "ends")]),
    (
        "epilogue",
        [(bits, 32, follows, 2, channels) for bits in (8, 16) for follows, channels in ((31, 16), (30, 7))],
        [*EVERY_END, ("ends", "ends")],
    ),
    # bits of w, bits of x, count; 128 terms of 8 bits are summed at once
    ("dot", [(w, x, count) for w in (8, 16) for x in (8, 16) for count in (1, 129)], [ANY]),
    ("dot", [(w, x, 1027) for w in (8, 16) for x in (8, 16)], EVERY_END),
    # bits of x, bits of y, pixels, channels, shift of the slope
    (
        "prelu",
        [(x, y, 3, 37, shift) for x in (8, 16) for y, shift in ((8, 15), (16, 0), (32, 13))],
        [ANY, *EVERY_END, ("ends", "ends")],
    ),
    # bits, count
    ("maximum", [(bits, 67) for bits in (8, 16, 32)], [ANY, ("ends", "ends")]),
    # bits, count, shift
    ("shift", [(bits, 67, shift) for bits in (8, 16) for shift in (0, 4, 29)], [ANY, *EVERY_END]),
    # count
    ("image", [(1,), (67,)], [ANY, *EVERY_END]),
    # width, count
    ("weights", [(width, 67) for width in (8, 16, 32)], [ANY, ("ends", "random")]),
    # count
    ("weight_sums", [(1,), (130,), (4099,)], [ANY, ("lowest", "random"), ("ends", "random")]),
    # bits of x, bits of g, pixels, channels, shift
    (
        "prelu_gradient",
        [(8, 16, 3, 37, 15), (16, 8, 3, 65, 0), (16, 16, 2, 33, 13)],
        [ANY, *EVERY_END, ("ends", "ends")],
    ),
    # bits of x, bits of g, count, how far beyond the values bounds may lie
    (
        "mask",
        [(x, g, 67, beyond) for x, beyond in ((8, 1), (16, 1), (32, 0)) for g in (8, 16)],
        [ANY, ("ends", "ends")],
    ),
    ("mask", [(x, 16, 33, 0) for x in (8, 16, 32)], [("ends", "lowest"), ("ends", "highest")]),
    # whole blocks of 16 channels under windows of 3 x 3: bits of x, bits of g, side of the kernel, stride, channels
    ("depthwise", [(8, 8, 3, 1, 16), (16, 16, 3, 1, 48), (8, 16, 3, 2, 64)], [ANY, *EVERY_END]),
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
