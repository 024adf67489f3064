"""Devices that a plan can be made for: memory, clock and power, each with its source."""

from __future__ import annotations

from dataclasses import dataclass

from everbit.errors import ConfigurationError
from everbit.plan.counted_speeds import counted_speed
from everbit.plan.published_speeds import VEGA_SLEEP_WATTS, VEGA_WATTS, r21_speed, v24_speed
from everbit.plan.speeds import Speed

KIB, MIB, GIB = 2**10, 2**20, 2**30


@dataclass(frozen=True)
class Target:
    """A device.

    address_bytes: 4 or 8. ram: bytes in one piece, for the learner and its stack. flash: bytes for code and program;
    None where they come from a file. code: bytes of the exported project's code there. active_watts: while it
    computes; sleep_watts: in between, with its memory kept. sources: of these numbers. speeds: the one used first.
    """

    name: str
    title: str
    address_bytes: int
    ram: int
    flash: int | None
    code: int
    active_watts: float
    sleep_watts: float
    sources: tuple[str, ...]
    speeds: tuple[Speed, ...]


_PI_POWER = "power of the whole board, idle and all cores busy: pidramble.com/wiki/benchmarks/power-consumption"
_L4 = "STM32L476 datasheet (DS10198): 1 MB of flash, 96 KB of RAM in one piece, 10.2 mA at 80 MHz, 1.1 uA in Stop 2"
_H7 = "STM32H743 datasheet (DS12110): 2 MB of flash, 512 KB of RAM in one piece, 263 uA/MHz; about 0.3 mA in Stop"
_VEGA = "Rossi et al., Vega, JSSC 2022 (arXiv 2110.09101): 1.7 uW asleep with its memory kept"

TARGETS = {
    target.name: target
    for target in (
        Target(
            "pi3", "Raspberry Pi 3B", 8, GIB, None, 0, 3.7, 1.4, (_PI_POWER,), (v24_speed("pi3"), counted_speed("pi3"))
        ),
        Target(
            "pi4", "Raspberry Pi 4B", 8, GIB, None, 0, 6.4, 2.7, (_PI_POWER,), (v24_speed("pi4"), counted_speed("pi4"))
        ),
        Target(
            "pi5",
            "Raspberry Pi 5",
            8,
            2 * GIB,
            None,
            0,
            8.0,
            3.0,
            ("power: round numbers of what people measured",),
            (v24_speed("pi5"), counted_speed("pi5")),
        ),
        Target(
            "stm32l4",
            "STM32L476, Cortex-M4 at 80 MHz",
            4,
            96 * KIB,
            MIB,
            225_748,
            10.2e-3 * 3.3,
            1.1e-6 * 3.3,
            (_L4,),
            (counted_speed("stm32l4"), r21_speed("stm32l4")),
        ),
        Target(
            "stm32h7",
            "STM32H743, Cortex-M7 at 480 MHz",
            4,
            512 * KIB,
            2 * MIB,
            226_828,
            263e-6 * 480 * 3.3,
            0.3e-3 * 3.3,
            (_H7,),
            (counted_speed("stm32h7"),),
        ),
        Target(
            "vega",
            "VEGA, ten RISC-V cores, 64 MB beside it",
            4,
            64_000_000,
            64_000_000,
            225_748,
            VEGA_WATTS,
            VEGA_SLEEP_WATTS,
            (_VEGA, "R21: 37 times less energy than an STM32L4 in 1/65 of its time gives the power; under 64 MB"),
            (r21_speed("vega"),),
        ),
    )
}
"""By name."""


def require_target(name: str) -> Target:
    """The target of that name. Raises ConfigurationError for one that is not there."""
    if name not in TARGETS:
        raise ConfigurationError(f"unknown target {name!r}: choose one of {', '.join(TARGETS)}")
    return TARGETS[name]
