"""The words of docs/arithmetic.md against exact Python numbers, and the packing of binary weights."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from everbit.packed_weights import pack_binary_weights, unpack_binary_weights
from everbit.quantize.scale import scale_of
from reference.fixed_point import (
    Gradient,
    Scale,
    affine,
    consolidation_factor,
    draws_at,
    int64,
    meet,
    multiply,
    quantize,
    rdiv,
    reciprocal,
    rshift,
    sat,
    sats,
    scale,
    scale_randomly,
    softmax,
    srdhm,
)
from reference.learner import SplitMix64

INT64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-(2**17), 2**17)
INT32 = st.integers(-(2**31), 2**31 - 1)
MANTISSA = st.integers(2**30, 2**31 - 1) | st.integers(-(2**31) + 1, -(2**30)) | st.just(0)
SCALE = st.builds(Scale, MANTISSA, st.integers(-45, 45))


def value(of: Scale) -> Fraction:
    return Fraction(int(of.mantissa), 2**31) * Fraction(2) ** int(of.exponent)


def round_half_away(x: Fraction) -> int:
    return int(abs(x) + Fraction(1, 2)) * (1 if x >= 0 else -1)


@given(INT64, st.integers(0, 70))
@example(-(2**63), 62)
@example(2**63 - 1, 1)
def test_rshift(v: int, s: int) -> None:
    assert int(rshift(v, s)) == (0 if s >= 63 else round_half_away(Fraction(v, 2**s)))


@given(INT32, INT32)
@example(-(2**31), -(2**31))
def test_srdhm(a: int, b: int) -> None:
    assert int(srdhm(a, b)) == min(round_half_away(Fraction(a * b, 2**31)), 2**31 - 1)


@given(INT64, SCALE, st.integers(0, 2**32 - 1))
@example(-(2**63), Scale(2**31 - 1, 0), 2**32 - 1)
@example(2**31 - 1, Scale(2**31 - 1, -31), 2**32 - 1)
def test_scale_randomly_rounds_down_or_up(v: int, by: Scale, draw: int) -> None:
    """To one of the two integers around the exact product, but for what 32 bits of v and of the draw leave open."""
    found = int(scale_randomly(int64([v]), by, int64([draw]))[0])
    exact = v * value(by)
    slack = 1 + abs(exact) / 2**30
    assert abs(found - max(-(2**31), min(2**31 - 1, exact))) <= slack


@pytest.mark.parametrize("v", [1, -1, 3, 1000, -777777, 2**31 - 1, -(2**31), 2**40 + 12345, -(2**62)])
@pytest.mark.parametrize("real", [0.3, 0.01, 2.0**-20 * 1.7, 2.0**-40 * 1.3, 2.0**-61])
def test_scale_randomly_is_right_on_average(v: int, real: float) -> None:
    """The mean over many draws is the exact product: within four standard errors, where nearest is off by up to 1/2."""
    by, count = Scale(*scale_of(real)), 20000
    draws = int64(draws_at(12345, np.arange(count)) >> np.uint64(32))
    found = scale_randomly(np.full(count, v, np.int64), by, draws).astype(float)
    exact = float(max(-(2**31), min(2**31 - 1, v * value(by))))
    fraction = abs(exact) % 1
    tolerance = 4 * np.sqrt(fraction * (1 - fraction) / count) + abs(exact) * 2.0**-30 + 1e-6
    assert abs(found.mean() - exact) <= tolerance
    assert len(np.unique(found)) <= 2


def test_draws_are_those_of_splitmix64() -> None:
    """By their numbers, without those before them; bits evenly 0 and 1."""
    random = SplitMix64(99)
    assert [int(word) for word in draws_at(99, np.arange(1, 6))] == [random.next() for _ in range(5)]
    words = draws_at(7, np.arange(4096))
    counts = ((words[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)).sum(axis=0)
    assert np.abs(counts.astype(float) - 2048).max() < 4.5 * 32


@given(INT64, SCALE)
@example(-(2**63), Scale(2**31 - 1, 0))
@example(1, Scale(2**30, 12))
def test_scale_is_within_one_unit_and_30_bits(v: int, by: Scale) -> None:
    exact = v * value(by)
    clamped = max(Fraction(-(2**31)), min(Fraction(2**31 - 1), exact))
    assert abs(int(scale(v, by)) - clamped) <= 1 + abs(clamped) / 2**28


def test_scale_keeps_small_values_apart() -> None:
    """An 8-bit activation in units of 2^-16: an exponent above 0 must not cost bits."""
    assert scale(np.arange(-3, 4), Scale(2**30, 12)).tolist() == [-6144, -4096, -2048, 0, 2048, 4096, 6144]


@given(SCALE, SCALE)
def test_multiply(first: Scale, second: Scale) -> None:
    product, exact = multiply(first, second), value(first) * value(second)
    assert product.mantissa == 0 or 2**30 <= abs(int(product.mantissa)) < 2**31
    assert abs(value(product) - exact) <= abs(exact) / 2**30


@given(st.integers(1, 2**20))
@example(1)
@example(2**20)
def test_reciprocal(n: int) -> None:
    result = reciprocal(n)
    assert 2**30 <= int(result.mantissa) < 2**31
    assert abs(value(result) * n - 1) <= Fraction(1, 2**30)


def test_clamps() -> None:
    assert sat([-129, -128, 127, 128], 8).tolist() == [-128, -128, 127, 127]
    assert sats([-129, -128, 127, 128], 8).tolist() == [-127, -127, 127, 127]
    assert rdiv([5, -5, 4, -4, 9], 2).tolist() == [3, -3, 2, -2, 5]


def test_affine_fits_int32_at_its_extremes() -> None:
    q, A, B = np.meshgrid([-(2**15), 2**15 - 1], [-(2**15), 2**15 - 1], [-(2**29), 2**29])
    total = affine(q, A, B, 0)
    assert (total == q * A + B).all() and np.abs(total).max() + 2**28 < 2**31


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_quantize_uses_the_whole_width(bits: int) -> None:
    rng = np.random.default_rng(bits)
    for power in (0, 5, 20, 45):
        accumulated = rng.integers(-(2**power), 2**power + 1, 50)
        values, exponent = quantize(accumulated, -7, bits)
        assert np.abs(values).max() < 2 ** (bits - 1)
        assert np.abs(values * 2.0 ** (exponent + 7) - accumulated).max() <= 2.0 ** (exponent + 7)
        if exponent > -7:
            assert np.abs(values).max() >= 2 ** (bits - 2)
    assert quantize(np.zeros(3, np.int64), 4, bits).exponent == 4
    assert quantize(int64([2**bits - 1]), 0, bits).values.tolist() == [2 ** (bits - 1) - 1]  # rounded up, clamped


def test_gradients_meet_at_the_larger_exponent() -> None:
    total = meet(Gradient(int64([100, -3]), 0), Gradient(int64([10, 1]), 1), 8)
    assert total.exponent == 1 and total.values.tolist() == [60, -1]


@pytest.mark.parametrize("classes", [1, 2, 7, 100])
def test_softmax_is_near_the_float_one(classes: int) -> None:
    """Within 2e-6: t is rounded to 2^-17 octaves, which is 5.3e-6 of each exponential but the largest."""
    rng = np.random.default_rng(classes)
    active = rng.random(classes + 3) < 0.8
    active[:1] = True
    for spread in (0.1, 1.0, 5.0, 30000.0):
        logits = sat(rng.normal(0, spread * 65536, (50, len(active))).round(), 32)
        real = np.where(active, logits / 65536, -np.inf)
        expected = np.exp(real - real.max(axis=1, keepdims=True))
        expected /= expected.sum(axis=1, keepdims=True)
        probabilities = softmax(logits, active) / 2**30
        assert np.abs(probabilities - expected).max() < 2e-6
        assert (probabilities[:, ~active] == 0).all() and (probabilities.sum(axis=1) <= 1).all()


def test_softmax_of_the_widest_logits() -> None:
    assert softmax(int64([[-(2**31), 2**31 - 1]]), np.ones(2, bool)).tolist() == [[0, 2**30]]


@given(st.integers(0, 2**30), st.integers(1, 2**20))
def test_consolidation_factor(past: int, current: int) -> None:
    p = (past / current) ** 0.5
    assert abs(consolidation_factor(past, current) / 2**31 - p / (p + 1)) <= 2.0**-16


@pytest.mark.parametrize("channels", [1, 3, 37, 64, 65, 130])
@pytest.mark.parametrize("taps", [1, 9])
@pytest.mark.parametrize("out_channels", [1, 8, 11])
def test_binary_weights_survive_packing(channels: int, taps: int, out_channels: int) -> None:
    bits = np.random.default_rng(channels).random((out_channels, taps, channels)) < 0.5
    words = pack_binary_weights(bits)
    assert words.shape == ((out_channels + 7) // 8, taps * ((channels + 63) // 64), 8)
    assert (unpack_binary_weights(words, out_channels, taps, channels) == bits).all()
