"""Speeds of everbit's own kernels, from instructions that tools/instructions/costs.py counted.

The instructions are counted, and held against others that were counted; how many cycles one takes is assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from everbit.plan.operations import FORWARD, FROZEN, INPUTS, KINDS, WEIGHTS
from everbit.plan.published_speeds import PI5_OVER_PI4, V24_MILLISECONDS
from everbit.plan.speeds import Check, Rates, Speed

SOURCE = "tools/instructions/costs.py"


@dataclass(frozen=True)
class Kernels:
    """Kernels of an instruction set: instructions an operation by kind, and of a number that an update changes.

    They are shares of sums: what several operations cost together is known better than what each does.

    checks: instructions of the packaged birealnet18, which no cost was made from, as counted and as these costs say.
    """

    name: str
    forward: Mapping[str, float]
    inputs: Mapping[str, float]
    weights: Mapping[str, float]
    update: float
    checks: tuple[tuple[str, int, int], ...]


def _costs(binary: float, dense: float, depthwise: float, scales: float, values: float) -> dict[str, float]:
    return dict(zip(KINDS, (binary, dense, depthwise, scales, values), strict=True))


DSP = Kernels(
    "Cortex-M's DSP instructions",
    forward=_costs(0.385, 5.49, 25.5, 138, 30),
    inputs=_costs(1.92, 6.33, 65.5, 1.45, 0),
    weights=_costs(0, 0, 0, 58.3, 0),
    update=53,
    checks=(
        ("a step of 8 patterns", 381_414_952, 495_911_468),
        ("an image", 110_154_511, 107_376_664),
    ),
)
NEON = Kernels(
    "NEON",
    forward=_costs(0.0355, 2.35, 12.3, 63.8, 16.4),
    inputs=_costs(0.434, 1.07, 17.6, 9.65, 0),
    weights=_costs(0, 0.556, 0, 21.8, 0),
    update=11.3,
    checks=(
        ("a step of 8 patterns", 82_581_305, 106_234_990),
        ("an image", 25_021_520, 25_669_144),
    ),
)


@dataclass(frozen=True)
class Core:
    """A processor's core. cycles: of an instruction, on average: assumed."""

    kernels: Kernels
    hertz: float
    cycles: float
    why: str


_M4, _A53 = 1.4, 1.0
_PI4_OVER_PI3 = V24_MILLISECONDS["pi3", "mobilenet_v2"][0] / V24_MILLISECONDS["pi4", "mobilenet_v2"][0]
_A72 = _A53 * (1.5 / 1.2) / _PI4_OVER_PI3
_A76 = _A72 * (2.4 / 1.5) / PI5_OVER_PI4

CORES = {
    "stm32l4": Core(DSP, 80e6, _M4, "1.4 cycles an instruction: one, more for loads, branches and flash"),
    "stm32h7": Core(DSP, 480e6, _M4 * 3.42 / 5.01, "a Cortex-M4's cycles by the cores' CoreMark/MHz, 3.42 and 5.01"),
    "pi3": Core(NEON, 1.2e9, _A53, "1 cycle an instruction on a Cortex-A53, one core"),
    "pi4": Core(NEON, 1.5e9, _A72, "as a Pi 3B, by V24's ratio of the two on MobileNetV2, one core"),
    "pi5": Core(NEON, 2.4e9, _A76, "as a Pi 4B, twice as fast, one core"),
}


def counted_speed(target: str) -> Speed:
    """everbit's own implementation on a target of CORES."""
    core = CORES[target]
    per_second = core.hertz / core.cycles
    kernels = core.kernels
    costs = {FROZEN: kernels.forward, FORWARD: kernels.forward, INPUTS: kernels.inputs, WEIGHTS: kernels.weights}
    rates: Rates = {
        (phase, kind): per_second / cost[kind] if cost[kind] else inf for phase, cost in costs.items() for kind in KINDS
    }
    checks = tuple(
        Check(f"{what} of the packaged birealnet18", counted / 1e6, predicted / 1e6, "M instructions", SOURCE)
        for what, counted, predicted in core.kernels.checks
    )
    return Speed(
        name="everbit",
        implementation=f"everbit's, {core.kernels.name}",
        rates=rates,
        calibration=f"instructions counted by {SOURCE}; assumed: {core.why}",
        update=per_second / core.kernels.update if core.kernels.update else inf,
        checks=checks,
    )
