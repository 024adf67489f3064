"""Goals, and the table of measurements that they belong to."""

from __future__ import annotations

from importlib import import_module

import pytest

from everbit.benchmarks.goals import GOALS, Goal, figures
from everbit.benchmarks.measurements import MEASUREMENTS


@pytest.mark.parametrize(
    ("goal", "figure", "holds"),
    [
        (Goal(">=", 4), 4, True),
        (Goal(">=", 4), 3.99, False),
        (Goal("<=", 1.1), 1.1, True),
        (Goal("<=", 1.1), 1.2, False),
        (Goal("=", 1), 1, True),
        (Goal("=", 1), 1.0001, False),
    ],
)
def test_a_goal_holds(goal: Goal, figure: float, holds: bool) -> None:
    assert goal.holds(figure) is holds


def test_figures_of_a_field() -> None:
    field = "learn_step_speedup_vs_torch_fp32"
    assert figures(field, {"q16": 4.5, "q8": 7, "qbin1": 8}) == {
        f"{field}.q16": 4.5,
        f"{field}.q8": 7,
        f"{field}.qbin1": 8,
    }
    assert figures(field, None) == dict.fromkeys((f"{field}.q16", f"{field}.q8", f"{field}.qbin1"))
    assert figures("threads_2_over_1", 1.8) == {"threads_2_over_1": 1.8}
    assert figures("planned_bytes", 5) == {}


def test_every_goal_is_measured() -> None:
    fields = {field for measurement in MEASUREMENTS.values() for field in measurement.fields}
    assert {name.partition(".")[0] for name in GOALS} <= fields


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_every_measurement_has_a_module(name: str) -> None:
    assert callable(import_module(f"everbit.benchmarks.{MEASUREMENTS[name].module}").measure)
