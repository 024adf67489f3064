"""Speeds of V24's and R21's implementations, calibrated on what their papers print."""

from __future__ import annotations

from math import inf

from everbit.plan.operations import BACKWARD, BINARY, DENSE, DEPTHWISE, FORWARD, FROZEN, PHASES, SCALES, VALUES
from everbit.plan.speeds import Check, Rates, Speed

V24_SOURCE = "V24, Table 2 (arXiv 2401.09916)"
R21_SOURCE = "R21 (arXiv 2110.10486)"

V24_MILLISECONDS = {
    ("pi3", "mobilenet_v2"): (340, 134),
    ("pi3", "quicknet"): (160, 55),
    ("pi4", "mobilenet_v2"): (225, 90),
    ("pi4", "quicknet"): (105, 38),
}
"""V24, Table 2: one image of 224 x 224 pixels forward, and backward, at 8,8,16."""

V24_CUTS = {"mobilenet_v2": "block16", "quicknet": "transition3.blur"}
"""What learns stands behind it. The paper names QuickNet's; of MobileNetV2 we take the last block, like benchmarks/."""

V24_OPERATIONS = {
    "mobilenet_v2": {"forward": (0, 299_558_272), "backward": (0, 78_747_520)},
    "quicknet": {"forward": (1_849_688_064, 29_165_312), "backward": (924_844_032, 6_473_728)},
}
"""Multiply-adds of these networks with 50 classes, binary and other ones, as `operations` counts them."""

PI5_OVER_PI4 = 2.0
"""The lower end of its maker's "two to three times"."""

_STM32L4_HERTZ = 80e6
_STM32L4_WATTS = 10.2e-3 * 3.3
_STM32L4_MACS = 4.39 / 36.6 * _STM32L4_HERTZ
"""PULP-TrainLib (SAMOS 2022): 4.39 multiply-adds a cycle on eight cores are 36.6 times what an STM32L4 does."""

VEGA_FASTER, VEGA_SAVES = 65, 37
"""R21: VEGA's time and energy, compared with an STM32L4's."""

VEGA_WATTS = _STM32L4_WATTS * VEGA_FASTER / VEGA_SAVES
VEGA_SLEEP_WATTS = 1.7e-6
VEGA_BATTERY = (3.3, 3.3)
"""Ampere-hours as reported of R21, and the volts that its processors run at."""

R21_HOURS = {"a minute": 535.0, "an hour": 200_000.0}
"""R21: lifetimes when a mini-batch is learned once a minute, and once an hour; the second needs so little that it can
only be of the last layer."""

R21_CUT = "block11"
R21_PREDICTED = 601.0
"""Hours that these speeds give for a mini-batch a minute, MobileNetV1 at 128 pixels cut there (docs/plan.md)."""

R21_BATCH = (21, 107)
"""New and replayed patterns of a mini-batch."""

R21_CLASSES = 50
R21_MACS = 185_427_968
"""Of MobileNetV1 at 128 x 128 pixels and 50 classes."""


def v24_speed(target: str) -> Speed:
    """V24's implementation on a Raspberry Pi: pi3, pi4 or pi5."""
    faster = {"pi3": (1.0, 1.0), "pi4": _pi4_over_pi3()}
    faster["pi5"] = tuple(PI5_OVER_PI4 * factor for factor in faster["pi4"])  # type: ignore[assignment]
    forward, backward = faster[target]
    rates: Rates = {
        **{(phase, kind): rate * forward for phase in (FROZEN, FORWARD) for kind, rate in _kinds("forward").items()},
        **{(phase, kind): rate * backward for phase in BACKWARD for kind, rate in _kinds("backward").items()},
    }
    calibrations = {
        "pi3": "MobileNetV2's and QuickNet's rows of the Pi 3B",
        "pi4": "the Pi 3B's rows, and how much faster MobileNetV2 is on a Pi 4B",
        "pi5": "the Pi 4B, twice as fast: the lower end of what its maker says",
    }
    return Speed(
        name="V24",
        implementation="V24's: binary layers by Larq's engine, others 8-bit or float, gradients at 8 and 16 bits",
        rates=rates,
        calibration=f"{V24_SOURCE}: {calibrations[target]}",
        checks=_pi4_checks() if target == "pi4" else (),
    )


def r21_speed(target: str) -> Speed:
    """R21's implementation, a frozen part of 8 bits and a learnable one in float32, on VEGA or an STM32L4."""
    slower = {"vega": 1, "stm32l4": VEGA_FASTER}[target]
    learns, frozen = VEGA_FASTER * _STM32L4_MACS / slower, _vega_frozen() / slower
    rates: Rates = {
        **{(FROZEN, kind): frozen for kind in (DENSE, DEPTHWISE)},
        **{(phase, kind): learns for phase in (FORWARD, *BACKWARD) for kind in (DENSE, DEPTHWISE)},
        **{(phase, kind): inf for phase in PHASES for kind in (SCALES, VALUES)},
    }
    check = Check(
        "lifetime, a mini-batch a minute; the cut, block11, is assumed",
        R21_HOURS["a minute"],
        R21_PREDICTED,
        "h",
        R21_SOURCE,
    )
    return Speed(
        name="R21",
        implementation="R21's: the frozen part in 8 bits, the learnable one in float32",
        rates=rates,
        calibration=(
            f"{R21_SOURCE}: VEGA is 65 times as fast as an STM32L4, which does 0.12 multiply-adds a cycle "
            "(PULP-TrainLib, SAMOS 2022); the frozen part from 200,000 h at a mini-batch an hour"
        ),
        checks=(check,) if target == "vega" else (),
    )


def _kinds(direction: str) -> dict[str, float]:
    """Operations a second on a Pi 3B: the others' from MobileNetV2, then what QuickNet leaves to the binary ones."""
    at = ("forward", "backward").index(direction)
    other = V24_OPERATIONS["mobilenet_v2"][direction][1] / (V24_MILLISECONDS["pi3", "mobilenet_v2"][at] / 1000)
    binary_macs, other_macs = V24_OPERATIONS["quicknet"][direction]
    binary = binary_macs / (V24_MILLISECONDS["pi3", "quicknet"][at] / 1000 - other_macs / other)
    return {BINARY: binary, DENSE: other, DEPTHWISE: other, SCALES: inf, VALUES: inf}


def _pi4_over_pi3() -> tuple[float, float]:
    """How much faster MobileNetV2 is, forward and backward."""
    old, new = V24_MILLISECONDS["pi3", "mobilenet_v2"], V24_MILLISECONDS["pi4", "mobilenet_v2"]
    return old[0] / new[0], old[1] / new[1]


def _pi4_checks() -> tuple[Check, ...]:
    """QuickNet on a Pi 4B, which no constant was made from."""
    old, new = V24_MILLISECONDS["pi3", "quicknet"], V24_MILLISECONDS["pi4", "quicknet"]
    return tuple(
        Check(f"QuickNet {what}, Pi 4B", published, before / factor, "ms", V24_SOURCE)
        for what, published, before, factor in zip(("forward", "backward"), new, old, _pi4_over_pi3(), strict=True)
    )


def _vega_frozen() -> float:
    """8-bit multiply-adds a second, at full power: what the lifetime at a mini-batch an hour leaves to these."""
    hours, volts = VEGA_BATTERY
    joules = 3600 * (hours * volts / R21_HOURS["an hour"] - VEGA_SLEEP_WATTS)
    last_layer = 3 * sum(R21_BATCH) * 1024 * R21_CLASSES
    training = last_layer / (VEGA_FASTER * _STM32L4_MACS) * VEGA_WATTS
    return R21_BATCH[0] * (R21_MACS - 1024 * R21_CLASSES) / ((joules - training) / VEGA_WATTS)
