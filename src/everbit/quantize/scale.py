"""Real constants -> the integers that stand for them (docs/arithmetic.md, section 1)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def scale_of(real: float) -> tuple[int, int]:
    """The Scale (mantissa, exponent) of a real number: mantissa / 2^31 * 2^exponent, 2^30 <= |mantissa| < 2^31."""
    if real == 0:
        return 0, 0
    fraction, exponent = math.frexp(real)
    mantissa = round(fraction * 2**31)
    if abs(mantissa) == 2**31:
        return int(math.copysign(2**30, mantissa)), exponent + 1
    return mantissa, exponent


class AffineRange(NamedTuple):
    """What the constants of an affine may be: |A| <= factor, |B| <= 2^offset_bits, 0 <= s <= shift."""

    factor: int
    offset_bits: int
    shift: int
    dtypes: tuple[str, str]


NARROW = AffineRange(2**15 - 1, 29, 29, ("int16", "int32"))
WIDE = AffineRange(2**31 - 1, 61, 61, ("int32", "int64"))
"""NARROW: between tensors of 8 and 16 bits. WIDE: where one of them has 32."""


def wide_factor(a: float, most: int) -> tuple[int, int]:
    """A, s of A / 2^s = a with |A| <= most and 0 <= s <= 61."""
    shift = int(np.clip(math.floor(math.log2(most / abs(a))), 0, WIDE.shift))
    return int(np.clip(round(a * 2.0**shift), -most, most)), shift


def affine_of(
    a: Floats, b: Floats, limits: AffineRange = NARROW, *, most: float | None = None
) -> tuple[NDArray[np.signedinteger], NDArray[np.signedinteger], NDArray[np.uint8]]:
    """Constants A, B, s of affine(q) = a * q + b for real arrays a, b of one shape; most: a smaller bound of |A|."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    most, most_offset = most or limits.factor, 2.0**limits.offset_bits
    with np.errstate(divide="ignore"):
        by_a = np.floor(np.log2(most / np.abs(a)))
        by_b = np.floor(np.log2(most_offset / np.abs(b)))
    shift = np.clip(np.minimum(by_a, by_b), 0, limits.shift)
    power = 2.0**shift
    A = np.clip(np.round(a * power), -most, most).astype(limits.dtypes[0])
    B = np.clip(np.round(b * power), -most_offset, most_offset).astype(limits.dtypes[1])
    return A, B, shift.astype(np.uint8)


def range_exponent_of(values: Floats, headroom: int = 1, least: int = -20) -> int:
    """The r of a parameter: every |value| * 2^headroom stays below 2^r."""
    largest = float(np.max(np.abs(values), initial=0.0))
    if largest == 0:
        return least
    return max(least, math.floor(math.log2(largest)) + 1 + headroom)


def parameter_values(values: Floats, range_exponent: int) -> NDArray[np.int32]:
    """Real parameters -> 32-bit integers P with real value P * 2^(r - 31)."""
    top = 2.0**31 - 1
    return np.clip(np.round(np.asarray(values, np.float64) * 2.0 ** (31 - range_exponent)), -top, top).astype(np.int32)


def activation_numbers(low: float, high: float, bits: int) -> tuple[float, int]:
    """Scale S and zero point Z of a tensor whose real values lie in [low, high] (V24, equation 1).

    0 is always inside the range, so that it has an exact integer. A tensor that is constant 0 gets S = 1. At 32 bits
    the range is symmetric and Z = 0: that costs at most one bit of 32.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    if high == low:
        return 1.0, 0
    if bits == 32:
        return max(high, -low) / (2**31 - 1), 0
    scale = (high - low) / (2**bits - 1)
    zero_point = round(-(2 ** (bits - 1)) - low / scale)
    return scale, int(np.clip(zero_point, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
