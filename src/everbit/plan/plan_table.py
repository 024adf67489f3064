"""A plan in the terminal: the choices, the bytes of one of them, and what stands behind the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table

from everbit.experiments.byte_size import byte_size
from everbit.plan.choices import STACK_BYTES, VARIABLE_BYTES, Choice, Request
from everbit.plan.memory import PURPOSES
from everbit.plan.programs import Plannable
from everbit.plan.speeds import Speed
from everbit.zoo.summary_table import shape_text

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
DAY = 24.0


def plan_tables(model: Plannable, found: Sequence[Choice], request: Request) -> Iterator[RenderableType]:
    """Everything that is printed, in order."""
    settings, target = request.settings, request.target
    weights = model.facts.get("weights", "")
    yield f"[bold]{model.name}[/bold], {shape_text(model.shape)} pixels, weights: {weights}; for {target.title}"
    yield (
        f"{settings.classes} classes, {settings.replay_per_class} latents of each, mini-batches of "
        f"{settings.batch_new} new and {settings.batch_replayed} replayed; {settings.experience_images} images an "
        f"experience, {settings.epochs} epochs"
    )
    yield _choices(found, request)
    yield "* estimated, as said below; bytes are exact, but for the code in flash and the stack in RAM\n"
    chosen = found[0]
    yield _memory(chosen, request)
    yield from _behind(chosen, request)


def _choices(found: Sequence[Choice], request: Request) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0)
    table.add_column("cut after", no_wrap=True)
    table.add_column("bits", no_wrap=True)
    exact = ("of a\nlatent", "flash", "RAM")
    estimated = ("forward*\nan image", "backward*", "expe-\nrience*", "its\nenergy*")
    lasts = () if request.battery is None else ("battery\nlasts*",)
    for heading in (*exact, *estimated, *lasts):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("fits", no_wrap=True, min_width=4)
    for choice in found:
        one = choice.estimates[0] if choice.estimates else None
        times = ("-",) * 4
        if one is not None:
            times = (
                duration(one.forward),
                duration(one.backward),
                duration(one.experience),
                energy(one.experience * one.watts),
            )
        hours = choice.lifetimes[0] if choice.lifetimes else None
        lifetime = () if request.battery is None else ("no time" if hours is None else lasting(hours),)
        table.add_row(
            choice.candidate.cut,
            str(choice.candidate.widths),
            byte_size(choice.program.latent_bytes),
            byte_size(choice.flash),
            byte_size(choice.ram),
            *times,
            *lifetime,
            "yes" if choice.fits else "no",
            style="" if choice.fits else "dim",
        )
    return table


def _memory(choice: Choice, request: Request) -> Table:
    table = Table(
        title=f"Bytes, cut after {choice.candidate.cut} at {choice.candidate.widths}",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=0,
        show_header=False,
    )
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    memory = choice.memory
    table.add_row("program", f"{memory.program:,}", "exact: in flash, or beside the learner", end_section=True)
    for purpose in PURPOSES:
        size = memory.by_purpose[purpose]
        table.add_row(purpose, f"{size:,}", "exact", end_section=purpose == PURPOSES[-1])
    table.add_row("arena", f"{memory.arena:,}", "exact, to the byte", style="bold")
    table.add_row("stack, variables", f"{STACK_BYTES + VARIABLE_BYTES:,}", "what an exported project keeps for them")
    if request.target.code:
        table.add_row("code", f"{request.target.code:,}", "estimate: the engine as GCC 12 builds it at -O2")
    return table


def _behind(choice: Choice, request: Request) -> Iterator[RenderableType]:
    """Estimates by implementation, their checks, and sources."""
    used = {one.speed.name for one in choice.estimates}
    for one, hours in zip(choice.estimates, choice.lifetimes, strict=True):
        lasts = "" if hours is None else f", battery {lasting(hours)}"
        yield (
            f"* [bold]{one.speed.implementation}[/bold]: forward {duration(one.forward)}, backward "
            f"{duration(one.backward)}, experience {duration(one.experience)}, "
            f"{energy(one.experience * one.watts)}{lasts}"
        )
        yield from _reliability(one.speed)
    for speed in request.target.speeds:
        if speed.name not in used:
            yield f"* {speed.implementation}: no published speed for some layers of this network"
    yield f"  power: {power(request.target.active_watts)} busy, {power(request.target.sleep_watts)} asleep"
    for source in request.target.sources:
        yield f"  {source}"


def _reliability(speed: Speed) -> Iterator[str]:
    yield f"  from {speed.calibration}"
    for check in speed.checks:
        yield (
            f"  checked: {check.what}: {check.published:,.4g} {check.unit}, predicted {check.predicted:,.4g} "
            f"({check.error:+.0%}); {check.source}"
        )
    if not speed.checks:
        yield "  not checked: no published number is left for it; take it as a rough guide"


def duration(seconds: float) -> str:
    """Three digits and a unit, hours and minutes where it is long."""
    if seconds >= 7200:
        return f"{seconds / 3600:.3g} h"
    if seconds >= 120:
        return f"{seconds / 60:.3g} min"
    size, unit = next((unit for unit in UNITS if seconds >= unit[0]), UNITS[-1])
    return f"{seconds / size:.3g} {unit}"


def energy(joules: float) -> str:
    """Three digits and a unit."""
    if joules >= 3600:
        return f"{joules / 3600:.3g} Wh"
    return f"{joules:.3g} J" if joules >= 1 else f"{joules * 1000:.3g} mJ"


def power(watts: float) -> str:
    """Three digits and a unit."""
    for unit, size in (("W", 1.0), ("mW", 1e-3)):
        if watts >= size:
            return f"{watts / size:.3g} {unit}"
    return f"{watts * 1e6:.3g} uW"


def lasting(hours: float) -> str:
    """Hours, days where there are many."""
    return f"{hours:,.0f} h" if hours < 100 * DAY else f"{hours / DAY:,.0f} days"
