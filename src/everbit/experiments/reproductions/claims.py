"""What a paper claims of accuracies, as something that can hold or fail on ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Finals = Mapping[str, Sequence[float]]
"""Final accuracies, fractions, of each series: one a class order, in the same order for all series."""


@dataclass(frozen=True)
class Verdict:
    """A claim held against our numbers.

    claim: in words. ours: what we found. margin: by how much the claim holds, in the unit; negative where it fails.
    """

    claim: str
    ours: str
    margin: float
    unit: str = "points"

    @property
    def holds(self) -> bool:
        """Whether our numbers say so too."""
        return self.margin >= 0

    def described(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "holds": self.holds}


class Claim(Protocol):
    """Something that can be held against final accuracies."""

    def verdict(self, finals: Finals, place: str) -> Verdict:
        """place: of which data and network, for the text; empty where that is plain."""


@dataclass(frozen=True)
class Beats:
    """One series ends at least so many points above another."""

    series: str
    other: str
    points: float = 0.0

    def verdict(self, finals: Finals, place: str) -> Verdict:
        gain = _difference(finals, self.series, self.other)
        least = f" by {self.points:g} points or more" if self.points else ""
        return Verdict(
            f"{place}{self.series} above {self.other}{least}", _spread(gain), _rounded(gain.mean() - self.points)
        )


@dataclass(frozen=True)
class Keeps:
    """One series ends at most so many points below another."""

    series: str
    other: str
    points: float

    def verdict(self, finals: Finals, place: str) -> Verdict:
        gain = _difference(finals, self.series, self.other)
        text = f"{place}{self.series} at most {self.points:g} points below {self.other}"
        return Verdict(text, _spread(gain), _rounded(gain.mean() + self.points))


def _difference(finals: Finals, series: str, other: str) -> NDArray[np.float64]:
    """Points by which a series ends above another, for each class order."""
    difference: NDArray[np.float64] = 100 * (np.asarray(finals[series]) - np.asarray(finals[other]))
    return difference


def _rounded(margin: np.floating[Any]) -> float:
    """Without what binary fractions are off by: a claim that is met to the last image holds."""
    return round(float(margin), 9)


def _spread(points: NDArray[np.float64]) -> str:
    """The mean, and how much class orders differ about it."""
    if len(points) == 1:
        return f"{points[0]:+.1f} points (one order)"
    return f"{points.mean():+.1f} ± {points.std(ddof=1):.1f} points"
