"""How fast implementations run on processors, from what was published and from instructions that were counted.

A speed is a few constants: operations a second by phase and kind. Each is calibrated on one published number, or on
instructions, and checked against other ones; no number is fitted to what it is checked against. docs/plan.md says the
same in words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from everbit.plan.operations import PHASES, Work

Rates = Mapping[tuple[str, str], float]
"""Operations a second by phase and kind; what is missing never ran there."""


@dataclass(frozen=True)
class Check:
    """A number that was published, or counted, beside what the speed gives for it."""

    what: str
    published: float
    predicted: float
    unit: str
    source: str

    @property
    def error(self) -> float:
        """Of the prediction, as a fraction of what was published."""
        return self.predicted / self.published - 1


@dataclass(frozen=True)
class Speed:
    """One implementation on one processor.

    name: whose implementation it is. update: numbers that a step changes a second, inf where the rates include them.
    calibration: where the constants come from. checks: none where nobody published a number to check against.
    """

    name: str
    implementation: str
    rates: Rates
    calibration: str
    update: float = inf
    checks: tuple[Check, ...] = ()

    def seconds(self, work: Work, phases: tuple[str, ...] = PHASES) -> float | None:
        """Of operations in some phases; None where the implementation has no such operation."""
        total = 0.0
        for (phase, kind), count in work.items():
            if phase not in phases or not count:
                continue
            if (phase, kind) not in self.rates:
                return None
            total += count / self.rates[phase, kind]
        return total

    @property
    def worst(self) -> float | None:
        """The largest error of the checks; None without any."""
        return max((abs(check.error) for check in self.checks), default=None)
