"""Time, energy and lifetime grow and shrink as they must."""

from __future__ import annotations

from collections import Counter

import pytest

from everbit.errors import ConfigurationError
from everbit.plan.estimate import Battery, estimate, lifetime_hours
from everbit.plan.operations import BINARY, DENSE, FORWARD, FROZEN, INPUTS, WEIGHTS, Experience, Operations
from everbit.plan.plan_table import duration, energy, lasting, power
from everbit.plan.speeds import Check, Speed
from everbit.plan.targets import TARGETS, require_target

SPEED = Speed(
    "test",
    "a test's",
    {(FROZEN, BINARY): 1000.0, (FORWARD, BINARY): 500.0, (INPUTS, BINARY): 250.0, (WEIGHTS, BINARY): 250.0},
    "nothing",
    update=100.0,
)
WORK = Counter({(FROZEN, BINARY): 2000, (FORWARD, BINARY): 1000, (INPUTS, BINARY): 250, (WEIGHTS, BINARY): 250})
COUNTED = Operations(WORK, update=50)
PI = TARGETS["pi4"]


def test_seconds_are_operations_by_their_rates() -> None:
    found = estimate(PI, SPEED, COUNTED, Experience(images=3, steps=4, patterns=10))
    assert found is not None
    assert found.forward == 2 + 2
    assert found.backward == 1 + 1 + 0.5 * 4 / 10
    assert found.experience == 2 * 3 + (2 + 2) * 10 + 0.5 * 4
    assert found.watts == PI.active_watts


def test_more_of_anything_takes_longer() -> None:
    base = Experience(3, 4, 10)
    least = estimate(PI, SPEED, COUNTED, base)
    assert least is not None
    for more in (Experience(4, 4, 10), Experience(3, 5, 10), Experience(3, 4, 11)):
        found = estimate(PI, SPEED, COUNTED, more)
        assert found is not None and found.experience > least.experience


def test_an_operation_that_never_ran_there_has_no_time() -> None:
    unknown = Operations(WORK + Counter({(FROZEN, DENSE): 1}), 0)
    assert estimate(PI, SPEED, unknown, Experience(1, 1, 1)) is None


def test_a_battery_lasts_for_its_energy() -> None:
    target, battery = TARGETS["vega"], Battery(3.3, 3.3)
    assert battery.joules == pytest.approx(3.3 * 3.3 * 3600)
    busy = lifetime_hours(target, battery, 60.0, 60)
    assert busy == pytest.approx(battery.joules / target.active_watts / 3600)
    asleep = lifetime_hours(target, battery, 0.0, 60)
    assert asleep == pytest.approx(battery.joules / target.sleep_watts / 3600)
    hours = [lifetime_hours(target, battery, seconds, 60) for seconds in (1.0, 10.0, 30.0, 59.0)]
    assert all(one is not None for one in hours)
    assert hours == sorted(hours, key=lambda one: -(one or 0))
    assert lifetime_hours(target, battery, 61.0, 60) is None


def test_a_check_s_error() -> None:
    assert Check("x", 100.0, 110.0, "ms", "here").error == pytest.approx(0.1)
    assert Speed("a", "b", {}, "c", checks=(Check("x", 100.0, 80.0, "ms", "here"),)).worst == pytest.approx(0.2)


def test_numbers_for_people() -> None:
    assert [duration(t) for t in (8000, 130, 2.0, 0.0123, 4e-5)] == ["2.22 h", "2.17 min", "2 s", "12.3 ms", "40 us"]
    assert [energy(e) for e in (7200, 3.5, 0.02)] == ["2 Wh", "3.5 J", "20 mJ"]
    assert [power(w) for w in (3.7, 0.0592, 1.7e-6)] == ["3.7 W", "59.2 mW", "1.7 uW"]
    assert [lasting(h) for h in (601.2, 24_000)] == ["601 h", "1,000 days"]


def test_an_unknown_target() -> None:
    with pytest.raises(ConfigurationError, match="unknown target 'pi9': choose one of pi3, pi4, pi5, stm32l4"):
        require_target("pi9")
