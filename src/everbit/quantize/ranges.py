"""The range of real values that a tensor's integers shall stand for, from a histogram of what calibration saw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everbit.quantize.scale import Floats

BINS = 2048
KEPT = 0.9999
"""Share of the values that a percentile range keeps."""

_SHRINKS = np.geomspace(1.0, 1 / 32, 36)

Range = tuple[float, float]


@dataclass
class Histogram:
    """Counts of a tensor's values in BINS equal parts of [low, high], its least and greatest value."""

    low: float
    high: float
    counts: NDArray[np.int64]

    @classmethod
    def over(cls, low: float, high: float) -> Histogram:
        """An empty one."""
        return cls(low, high, np.zeros(BINS, np.int64))

    def add(self, values: NDArray[np.float32]) -> None:
        """Counts values, any shape, between low and high."""
        width = (self.high - self.low) / BINS or 1.0
        places = np.clip((values.ravel() - self.low) / width, 0, BINS - 1).astype(np.int64)
        self.counts += np.bincount(places, minlength=BINS)

    @property
    def centers(self) -> Floats:
        """The middle of each part."""
        width = (self.high - self.low) / BINS
        centers: Floats = self.low + width * (np.arange(BINS, dtype=np.float64) + 0.5)
        return centers


def _percentile(histogram: Histogram, bits: int) -> Range:
    """Leaves out as many values at both ends as KEPT allows; an end at 0 stays."""
    share = np.cumsum(histogram.counts) / max(1, int(histogram.counts.sum()))
    outside = (1 - KEPT) / (1 if 0 in (histogram.low, histogram.high) else 2)
    edges = np.linspace(histogram.low, histogram.high, BINS + 1)
    low = edges[int(np.searchsorted(share, outside, side="right"))]
    high = edges[min(int(np.searchsorted(share, 1 - outside)) + 1, BINS)]
    return min(float(low), 0.0), max(float(high), 0.0)


def _least_squares(histogram: Histogram, bits: int) -> Range:
    """The range whose integers give the counted values back with the least squared error."""
    centers, counts = histogram.centers, histogram.counts.astype(np.float64)
    ends = min(histogram.low, 0.0), max(histogram.high, 0.0)
    highs = ends[1] * (_SHRINKS if ends[1] else np.ones(1))
    best = (np.inf, *ends)
    for low in ends[0] * (_SHRINKS if ends[0] else np.ones(1)):
        step = np.maximum(highs - low, 1e-300)[:, np.newaxis] / (2**bits - 1)
        zero = np.round(-low / step)
        whole = np.clip(np.round(centers / step) + zero, 0, 2**bits - 1) - zero
        errors = (whole * step - centers) ** 2 @ counts
        best = min(best, (float(errors.min()), float(low), float(highs[errors.argmin()])))
    return best[1], best[2]


def _least_and_greatest(histogram: Histogram, bits: int) -> Range:
    return histogram.low, histogram.high


EXTREMES = "minmax"
RANGES: dict[str, Callable[[Histogram, int], Range]] = {
    EXTREMES: _least_and_greatest,
    "percentile": _percentile,
    "mse": _least_squares,
}
"""How calibration chooses a tensor's range for a number of bits; one at 0 stays there."""
