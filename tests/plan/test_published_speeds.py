"""Published numbers: what speeds are made from is counted, what they are checked against comes out of the plan."""

from __future__ import annotations

from functools import cache

import pytest

from everbit import Settings
from everbit.plan.choices import Choice, Request, choices
from everbit.plan.estimate import Battery
from everbit.plan.operations import BACKWARD, BINARY, FORWARD, FROZEN, Operations
from everbit.plan.programs import plannable
from everbit.plan.published_speeds import (
    R21_BATCH,
    R21_CLASSES,
    R21_CUT,
    R21_HOURS,
    R21_MACS,
    R21_PREDICTED,
    V24_CUTS,
    V24_MILLISECONDS,
    V24_OPERATIONS,
    VEGA_BATTERY,
    VEGA_FASTER,
    r21_speed,
)
from everbit.plan.targets import TARGETS
from everbit.quantize.widths import Widths

WITHIN = 0.25


def planned(target: str, model: str, cut: str, widths: str, settings: Settings, size: int | None = None) -> Choice:
    on = TARGETS[target]
    request = Request(on, settings, on.ram, on.flash, Battery(*VEGA_BATTERY), 60)
    (choice,) = choices(plannable(model, None, None, size), [cut], [Widths.parse(widths)], request)
    return choice


@cache
def table2(target: str, model: str) -> Choice:
    """V24's configuration: 224 pixels, batch 1, 50 classes."""
    settings = Settings("naive", classes=50, batch_new=1, batch_replayed=0, experience_images=1)
    widths = "8,8,16,1" if model == "quicknet" else "8,8,16,8"
    return planned(target, model, V24_CUTS[model], widths, settings)


def macs(of: Operations, phases: tuple[str, ...], binary: bool) -> int:
    return sum(
        count
        for (phase, kind), count in of.work.items()
        if phase in phases and kind not in ("values", "scales") and (kind == BINARY) == binary
    )


@pytest.mark.parametrize("model", V24_OPERATIONS)
def test_v24_s_operations_are_counted(model: str) -> None:
    found = table2("pi4", model).operations
    for direction, phases in (("forward", (FROZEN, FORWARD)), ("backward", BACKWARD)):
        binary, other = V24_OPERATIONS[model][direction]
        assert macs(found, phases, True) == binary
        # Channels that the compiler splits in MobileNets come on top of the network's own.
        assert other <= macs(found, phases, False) <= 1.1 * other


def test_a_pi_4_on_table_2_s_configuration() -> None:
    """The check: QuickNet on the Pi 4B, which nothing was calibrated on."""
    one = table2("pi4", "quicknet").estimates[0]
    assert one.speed.name == "V24"
    for seconds, milliseconds in zip((one.forward, one.backward), V24_MILLISECONDS["pi4", "quicknet"], strict=True):
        assert 1000 * seconds == pytest.approx(milliseconds, rel=WITHIN)
    for check, seconds in zip(one.speed.checks, (one.forward, one.backward), strict=True):
        assert 1000 * seconds == pytest.approx(check.predicted, rel=1e-6)
        assert abs(check.error) < 0.05


@pytest.mark.parametrize(("target", "model"), [("pi3", "quicknet"), ("pi3", "mobilenet_v2"), ("pi4", "mobilenet_v2")])
def test_what_a_pi_was_calibrated_on(target: str, model: str) -> None:
    one = table2(target, model).estimates[0]
    expected = V24_MILLISECONDS[target, model]
    assert 1000 * one.forward == pytest.approx(expected[0], rel=0.1)  # splitting adds channels
    assert 1000 * one.backward == pytest.approx(expected[1], rel=1e-3)


def test_vega_s_lifetime() -> None:
    """The check: 535 h at a mini-batch a minute."""
    settings = Settings(
        classes=R21_CLASSES,
        replay_per_class=30,
        batch_new=R21_BATCH[0],
        batch_replayed=R21_BATCH[1],
        experience_images=R21_BATCH[0],
        epochs=1,
    )
    choice = planned("vega", "mobilenet_v1", R21_CUT, "8,1,16,8", settings, 128)
    assert macs(choice.operations, (FROZEN, FORWARD), False) == R21_MACS
    (hours,) = choice.lifetimes
    assert hours == pytest.approx(R21_HOURS["a minute"], rel=WITHIN)
    assert hours == pytest.approx(R21_PREDICTED, rel=0.005)
    (check,) = choice.estimates[0].speed.checks
    assert check.predicted == R21_PREDICTED


def test_vega_beside_the_microcontroller() -> None:
    vega, l4 = r21_speed("vega"), r21_speed("stm32l4")
    for kind, rate in l4.rates.items():
        assert vega.rates[kind] == pytest.approx(VEGA_FASTER * rate) or rate == float("inf")
    energy = TARGETS["stm32l4"].active_watts * VEGA_FASTER / TARGETS["vega"].active_watts
    assert energy == pytest.approx(37)


def test_no_speed_is_made_up_for_layers_that_nobody_ran() -> None:
    settings = Settings(classes=2, batch_new=1, batch_replayed=1, experience_images=2)
    choice = planned("vega", "quicknet", "transition3.blur", "8,1,16,1", settings, 64)
    assert choice.estimates == ()


def test_every_speed_says_where_it_is_from() -> None:
    for target in TARGETS.values():
        assert target.sources
        for speed in target.speeds:
            assert speed.implementation and speed.calibration
            assert all(rate > 0 for rate in speed.rates.values())
            if speed.checks:
                assert speed.worst == max(abs(check.error) for check in speed.checks)
            else:
                assert speed.worst is None
