"""Ranges of activations by each method of calibration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everbit.quantize.ranges import BINS, KEPT, RANGES, Histogram
from everbit.quantize.scale import activation_numbers


def histogram(values: np.ndarray) -> Histogram:
    found = Histogram.over(float(values.min()), float(values.max()))
    for part in np.array_split(values.astype(np.float32), 3):
        found.add(part)
    return found


def cost(values: np.ndarray, low: float, high: float, bits: int) -> float:
    """Mean squared error of values that go through integers."""
    scale, zero_point = activation_numbers(low, high, bits)
    end = 2 ** (bits - 1)
    whole = np.clip(np.round(values / scale + zero_point), -end, end - 1)
    return float(np.mean((values - scale * (whole - zero_point)) ** 2))


def drawn(kind: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = {
        "normal": rng.normal(0, 1, 50_000),
        "heavy tails": rng.standard_t(2, 50_000),
        "behind a ReLU": np.maximum(rng.normal(0, 2, 50_000), 0),
        "one sign": -rng.exponential(1, 50_000) - 3,
        "an outlier": np.append(rng.normal(0, 1, 50_000), 1000.0),
    }
    return values[kind]


KINDS = ("normal", "heavy tails", "behind a ReLU", "one sign", "an outlier")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", RANGES)
@pytest.mark.parametrize("bits", [8, 16])
def test_ranges_lie_within_the_extremes_and_hold_zero_exactly(method: str, kind: str, bits: int) -> None:
    values = drawn(kind, 0)
    low, high = RANGES[method](histogram(values), bits)
    assert min(values.min(), 0) - 1e-6 <= low <= high <= max(values.max(), 0) + 1e-6
    scale, zero_point = activation_numbers(low, high, bits)
    assert scale > 0
    assert -(2 ** (bits - 1)) <= zero_point < 2 ** (bits - 1)


def test_min_max_are_the_extremes() -> None:
    values = drawn("an outlier", 1).astype(np.float32)
    assert RANGES["minmax"](histogram(values), 8) == (float(values.min()), float(values.max()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_percentile_keeps_its_share(kind: str) -> None:
    values = drawn(kind, 2)
    low, high = RANGES["percentile"](histogram(values), 8)
    width = (values.max() - values.min()) / BINS
    assert np.mean((values >= low - width) & (values <= high + width)) >= KEPT - 1e-9


def test_a_percentile_leaves_an_outlier_out_and_an_end_at_zero_in() -> None:
    low, high = RANGES["percentile"](histogram(drawn("an outlier", 3)), 8)
    assert high < 10
    low, _ = RANGES["percentile"](histogram(drawn("behind a ReLU", 3)), 8)
    assert low == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [4, 8])
def test_least_squares_costs_no_more_than_the_extremes(kind: str, bits: int) -> None:
    """On the values themselves; the histogram's parts and the grid of ranges allow a percent."""
    values = drawn(kind, 4)
    extremes = cost(values, float(values.min()), float(values.max()), bits)
    assert cost(values, *RANGES["mse"](histogram(values), bits), bits) <= 1.01 * extremes


def test_least_squares_gains_much_at_few_bits() -> None:
    values = drawn("normal", 5)
    extremes = cost(values, float(values.min()), float(values.max()), 4)
    assert cost(values, *RANGES["mse"](histogram(values), 4), 4) < 0.6 * extremes


@pytest.mark.parametrize("method", RANGES)
@pytest.mark.parametrize("value", [0.0, 2.5, -2.5])
def test_a_constant_is_inside(method: str, value: float) -> None:
    low, high = RANGES[method](histogram(np.full(100, value)), 8)
    scale, zero_point = activation_numbers(low, high, 8)
    whole = np.clip(np.round(value / scale + zero_point), -128, 127)
    assert abs(scale * (whole - zero_point) - value) <= 0.3 * abs(value)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=200))
def test_a_histogram_counts_every_value(values: list[float]) -> None:
    found = histogram(np.array(values))
    assert found.counts.sum() == len(values)
    for method in RANGES.values():
        low, high = method(found, 8)
        assert min(*values, 0) <= low + 1e-3 * abs(low) + 1e-30
        assert high <= max(*values, 0) + 1e-3 * abs(high) + 1e-30
