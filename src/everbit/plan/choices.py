"""The choices that a device leaves: cuts and widths, with what each takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everbit.compile.program import Program
from everbit.errors import CapacityError, ConfigurationError
from everbit.learner.settings import Settings
from everbit.plan.estimate import Battery, Estimate, estimate, lifetime_hours
from everbit.plan.memory import LearnerMemory, learner_memory
from everbit.plan.operations import Operations, experience, operations
from everbit.plan.programs import Candidate, Plannable
from everbit.plan.targets import Target
from everbit.quantize.widths import Widths

STACK_BYTES = 16_384
"""What an exported project keeps for its stack unless it is told otherwise."""

VARIABLE_BYTES = 512
"""Most of its variables and the stack of faults, as tests/boards measures them."""


@dataclass(frozen=True)
class Request:
    """What is planned for. settings.experience_images: of an experience. ram, flash: bytes of the device; flash is
    None where the program comes from a file. per_hour: experiences."""

    target: Target
    settings: Settings
    ram: int
    flash: int | None
    battery: Battery | None
    per_hour: float


@dataclass(frozen=True)
class Choice:
    """One cut at one set of widths.

    ram, flash: bytes that the device needs. estimates: by implementation, those that have all operations. lifetimes:
    hours, beside each; None where it could not keep up.
    """

    candidate: Candidate
    memory: LearnerMemory
    operations: Operations
    ram: int
    flash: int
    fits: bool
    estimates: tuple[Estimate, ...]
    lifetimes: tuple[float | None, ...]

    @property
    def program(self) -> Program:
        """Its program."""
        return self.candidate.program


def choices(model: Plannable, cuts: Sequence[str], widths: Sequence[Widths], request: Request) -> list[Choice]:
    """Every choice, those that fit first, and in the order of the network.

    Raises CompileError, ConfigurationError where there is none.
    """
    found = [_choice(candidate, request) for candidate in model.candidates(cuts, widths)]
    return sorted(found, key=lambda choice: not choice.fits)


def require_fitting(found: Sequence[Choice], request: Request) -> None:
    """Raises CapacityError, with the least that would do, unless one of the choices fits."""
    if any(choice.fits for choice in found):
        return
    least = min(found, key=lambda choice: choice.ram)
    limit = f"{request.ram:,} bytes of RAM" + ("" if request.flash is None else f" and {request.flash:,} of flash")
    raise CapacityError(
        f"nothing fits {limit}: the smallest, cut after {least.candidate.cut} at {least.candidate.widths}, needs "
        f"{least.ram:,} and {least.flash:,}; lower --batch, --classes, --replay-per-class or --images, cut later, or "
        "take a narrower network"
    )


def _choice(candidate: Candidate, request: Request) -> Choice:
    target, settings = request.target, request.settings
    try:
        memory = learner_memory(candidate.program, settings, candidate.widths, target.address_bytes)
    except ValueError as error:
        raise ConfigurationError(f"the engine refuses a learner cut after {candidate.cut}: {error}") from error
    counted = operations(candidate.program, settings, candidate.widths, memory.gradients)
    of = experience(settings, settings.experience_images)
    ram, flash = memory.arena + STACK_BYTES + VARIABLE_BYTES, memory.program + target.code
    if target.flash is None:  # the program is read into memory from a file
        ram += memory.program
    estimates = [estimate(target, speed, counted, of) for speed in target.speeds]
    made = tuple(one for one in estimates if one is not None)
    battery = request.battery
    return Choice(
        candidate=candidate,
        memory=memory,
        operations=counted,
        ram=ram,
        flash=flash,
        fits=ram <= request.ram and (request.flash is None or flash <= request.flash),
        estimates=made,
        lifetimes=tuple(
            None if battery is None else lifetime_hours(target, battery, one.experience, request.per_hour)
            for one in made
        ),
    )
