"""Words of docs/arithmetic.md, section 1, and the fixed-point functions built from them, on int64 NumPy arrays."""

from __future__ import annotations

from math import isqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Integers = NDArray[np.int64]

LOG2_E = 1549082005
EXP2 = (1073741824, 744267345, 257856010, 59974165, 9607579, 2036725)
INT32_MAX = 2**31 - 1


class Scale(NamedTuple):
    """The real mantissa / 2^31 * 2^exponent; numbers, or int64 arrays [C] for one Scale a channel."""

    mantissa: int | Integers
    exponent: int | Integers

    def times_power(self, exponent: int) -> Scale:
        """self * 2^exponent."""
        return Scale(self.mantissa, self.exponent + exponent)


class Gradient(NamedTuple):
    """The real values * 2^exponent: int64 values that fit the gradient's bits once `quantize` has made them."""

    values: Integers
    exponent: int


def int64(values: ArrayLike) -> Integers:
    """An int64 array of the same values."""
    return np.asarray(values).astype(np.int64)


def rshift(values: ArrayLike, shift: ArrayLike) -> Integers:
    """values / 2^shift rounded half away from zero; shift >= 0, a number or an array that broadcasts."""
    v, s = np.broadcast_arrays(int64(values), int64(shift))
    magnitude = np.abs(v).view(np.uint64)  # exact for -2^63 too
    clipped = np.clip(s, 1, 62).astype(np.uint64)
    rounded = (magnitude + (np.uint64(1) << (clipped - np.uint64(1)))) >> clipped
    shifted = np.where(v < 0, -rounded.astype(np.int64), rounded.astype(np.int64))
    return np.where(s == 0, v, np.where(s >= 63, 0, shifted))


def sat(values: ArrayLike, bits: int) -> Integers:
    """Clamp to [-2^(bits-1), 2^(bits-1) - 1]."""
    return int64(np.clip(int64(values), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1))


def sats(values: ArrayLike, bits: int) -> Integers:
    """Clamp to [-(2^(bits-1) - 1), 2^(bits-1) - 1]."""
    return int64(np.clip(int64(values), -(2 ** (bits - 1) - 1), 2 ** (bits - 1) - 1))


def shift_by(values: ArrayLike, power: int) -> Integers:
    """values * 2^power for power >= 0, else rshift(values, -power)."""
    if power >= 0:
        return int64(int64(values) * 2**power)
    return rshift(values, -power)


def rdiv(values: ArrayLike, divisor: int) -> Integers:
    """values / divisor rounded half away from zero."""
    v = int64(values)
    return int64(np.sign(v) * ((2 * np.abs(v) + divisor) // (2 * divisor)))


def magnitude_bits(values: Integers) -> Integers:
    """Bits of v for v >= 0, of -v - 1 for v < 0: a two's complement number of one bit more holds v."""
    rest = np.where(values < 0, ~values, values)
    bits = np.zeros_like(rest)
    while rest.any():
        bits += rest != 0
        rest = rest >> 1
    return bits


def srdhm(a: ArrayLike, b: ArrayLike) -> Integers:
    """Saturating rounding doubling high multiply of two int32."""
    return sat(rshift(int64(a) * int64(b), 31), 32)


def scale(values: ArrayLike, by: Scale) -> Integers:
    """int64 values times a Scale, an int32 result; a Scale of arrays [C] goes along the last axis."""
    v, e = np.broadcast_arrays(int64(values), int64(by.exponent))
    n = np.maximum(magnitude_bits(v) - 31, -np.maximum(e, 0))
    w = np.where(n <= 0, v << np.clip(-n, 0, 31), sat(rshift(v, np.maximum(n, 0)), 32))
    r = srdhm(w, by.mantissa)
    k = n + e
    left = sat(r << np.clip(k, 0, 32), 32)
    right = np.where(-k > 31, 0, rshift(r, np.clip(-k, 0, 31)))
    return np.where(k >= 0, left, right)


def scale_randomly(values: ArrayLike, by: Scale, draws: Integers) -> Integers:
    """`scale` by one Scale, its last rounding by a 32-bit draw for each value: away from 0 where the draw says so."""
    v, e = int64(values), int(by.exponent)
    n = np.maximum(magnitude_bits(v) - 31, -max(e, 0))
    w = np.where(n <= 0, v << np.clip(-n, 0, 31), sat(rshift(v, np.maximum(n, 0)), 32))
    product = w * int(by.mantissa)
    results = []
    for p, drop, draw in zip(
        product.ravel().tolist(), (31 - e - n).ravel().tolist(), draws.ravel().tolist(), strict=True
    ):
        if drop <= 0:
            size = abs(p) << min(-drop, 64)
        else:
            kept = abs(p) >> max(0, drop - 62)
            t = min(drop, 62)
            size = (kept + (draw << (t - 32) if t >= 32 else draw >> (32 - t))) >> t
        results.append(max(-(2**31), min(INT32_MAX, size if p >= 0 else -size)))
    return int64(results).reshape(v.shape)


def mix64(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's output function on an array."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def draws_at(key: int, indices: ArrayLike) -> NDArray[np.uint64]:
    """The draws of the generator that starts at `key`, by their numbers."""
    return mix64(np.uint64(key) + np.asarray(indices).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def multiply(first: Scale, second: Scale) -> Scale:
    """The product of two single Scales."""
    mantissa = int(srdhm(first.mantissa, second.mantissa))
    exponent = int(first.exponent) + int(second.exponent)
    if abs(mantissa) < 2**30:
        return Scale(2 * mantissa, exponent - 1)
    return Scale(mantissa, exponent)


def reciprocal(n: int) -> Scale:
    """1 / n for n >= 1."""
    bits = n.bit_length()
    mantissa = ((1 << (30 + bits)) + n // 2) // n
    if mantissa >= 2**31:
        return Scale(2**30, 2 - bits)
    return Scale(mantissa, 1 - bits)


def affine(q: ArrayLike, A: ArrayLike, B: ArrayLike, s: ArrayLike) -> Integers:
    """(q * A + B) / 2^s, rounded; checks that the sum fits int32, as the contract promises."""
    total = int64(q) * int64(A) + int64(B)
    assert (total == sat(total, 32)).all(), "an affine sum left int32"
    return rshift(total, s)


def wide_affine(q: ArrayLike, A: ArrayLike, B: ArrayLike, s: ArrayLike) -> Integers:
    """The same where a tensor has 32 bits: the sum fits int64."""
    assert (np.abs(int64(q).astype(float) * int64(A) + int64(B)) < 2.0**63).all(), "an affine sum left int64"
    return rshift(int64(q) * int64(A) + int64(B), s)


def product_shift(bits: int) -> int:
    """Bits that a product of 32-bit factors leaves behind before it is summed."""
    return 16 if bits == 32 else 0


def product_sum(factors: Integers, raw: Integers, bits: int) -> Integers:
    """factors [N, M], raw [N, K], which are q - Z of a tensor of `bits` bits -> sums of their products, [M, K]."""
    if bits < 32:
        return int64(factors.T @ raw)
    return int64(rshift(factors[:, :, None] * raw[:, None, :], product_shift(bits)).sum(axis=0))


def quantize(accumulated: Integers, exponent: int, bits: int) -> Gradient:
    """The gradient accumulated * 2^exponent at `bits` bits, with one exponent for the tensor."""
    largest = max(int(accumulated.max(initial=0)), -int(accumulated.min(initial=0)))
    shift = max(0, largest.bit_length() - (bits - 1))
    return Gradient(sats(rshift(accumulated, shift), bits), exponent + shift)


def meet(first: Gradient, second: Gradient, bits: int) -> Gradient:
    """The sum of two gradients of one tensor."""
    exponent = max(first.exponent, second.exponent)
    total = rshift(first.values, exponent - first.exponent) + rshift(second.values, exponent - second.exponent)
    return quantize(total, exponent, bits)


def softmax(logits: Integers, active: NDArray[np.bool_]) -> Integers:
    """Probabilities in units of 2^-30 over the active classes, 0 elsewhere; logits [N, classes] in units of 2^-16."""
    chosen = logits[:, active]
    difference = chosen - chosen.max(axis=1, keepdims=True)
    t = rshift(difference * LOG2_E, 30)
    n, f = -(t >> 16), t & 65535
    y = np.full_like(t, EXP2[5])
    for coefficient in EXP2[4::-1]:
        y = coefficient + ((y * f) >> 16)
    exponential = np.where(n > 31, 0, y >> np.clip(n, 0, 31))
    probabilities = np.zeros_like(logits)
    probabilities[:, active] = (exponential << 30) // exponential.sum(axis=1, keepdims=True)
    return probabilities


def cross_entropy_gradient(
    logits: Integers, labels: NDArray[np.integer], active: NDArray[np.bool_], bits: int
) -> Gradient:
    """Gradient of the cross entropy by the logits [N, classes], quantized over the mini-batch."""
    accumulated = softmax(logits, active)
    accumulated[np.arange(len(labels)), labels] -= 2**30
    return quantize(accumulated, -30, bits)


def consolidation_factor(past: int, current: int) -> int:
    """alpha = p / (p + 1), p = sqrt(past / current), in units of 2^-31 (CWR*)."""
    p = isqrt((past << 32) // current)
    return min((p << 31) // (p + 65536), INT32_MAX)
