"""Time, energy and lifetime of a learner: operations that were counted, by speeds and powers that were published."""

from __future__ import annotations

from dataclasses import dataclass

from everbit.plan.operations import BACKWARD, FORWARD, FROZEN, Experience, Operations
from everbit.plan.speeds import Speed
from everbit.plan.targets import Target

HOUR = 3600.0
"""Seconds."""


@dataclass(frozen=True)
class Battery:
    """Ampere-hours at so many volts."""

    ampere_hours: float
    volts: float

    @property
    def joules(self) -> float:
        """Its energy."""
        return self.ampere_hours * self.volts * HOUR


@dataclass(frozen=True)
class Estimate:
    """Seconds of computing, and the watts it takes.

    forward: of one image through the whole network, as a prediction needs. backward: of one pattern, with its share of
    its step's update. experience: of all its images and mini-batches.
    """

    speed: Speed
    watts: float
    forward: float
    backward: float
    experience: float


def estimate(target: Target, speed: Speed, counted: Operations, of: Experience) -> Estimate | None:
    """What a target takes; None where the implementation lacks an operation that the program has."""
    frozen = speed.seconds(counted.work, (FROZEN,))
    forward = speed.seconds(counted.work, (FORWARD,))
    backward = speed.seconds(counted.work, BACKWARD)
    if frozen is None or forward is None or backward is None:
        return None
    update = counted.update / speed.update
    return Estimate(
        speed=speed,
        watts=target.active_watts,
        forward=frozen + forward,
        backward=backward + update * of.steps / of.patterns,
        experience=frozen * of.images + (forward + backward) * of.patterns + update * of.steps,
    )


def lifetime_hours(target: Target, battery: Battery, seconds: float, per_hour: float) -> float | None:
    """Hours that a battery lasts when so many seconds are computed `per_hour` times; None where that is no time left.

    In between the device sleeps.
    """
    busy = seconds * per_hour / HOUR
    if busy > 1:
        return None
    watts = busy * target.active_watts + (1 - busy) * target.sleep_watts
    return battery.joules / watts / HOUR
