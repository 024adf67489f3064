"""A plan as JSON: what is exact, and what is estimated and how far that was off where it was checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from everbit.plan.choices import STACK_BYTES, VARIABLE_BYTES, Choice, Request
from everbit.plan.estimate import Estimate
from everbit.plan.operations import KINDS, PHASES
from everbit.plan.programs import Plannable
from everbit.plan.speeds import Speed
from everbit.plan.targets import Target


def plan_json(model: Plannable, found: Sequence[Choice], request: Request) -> dict[str, Any]:
    """The whole plan."""
    target, settings, battery = request.target, request.settings, request.battery
    return {
        "model": model.name,
        "facts": model.facts,
        "image": list(model.shape),
        "target": _target(target),
        "limits": {"ram": request.ram, "flash": request.flash},
        "options": {
            "strategy": settings.strategy,
            "classes": settings.classes,
            "replay_per_class": settings.replay_per_class,
            "batch_new": settings.batch_new,
            "batch_replayed": settings.batch_replayed,
            "epochs": settings.epochs,
            "images": settings.experience_images,
            "experiences_per_hour": request.per_hour,
            "battery": None if battery is None else {"ampere_hours": battery.ampere_hours, "volts": battery.volts},
        },
        "choices": [_choice(choice, target) for choice in found],
    }


def _target(target: Target) -> dict[str, Any]:
    return {
        "name": target.name,
        "title": target.title,
        "address_bytes": target.address_bytes,
        "active_watts": target.active_watts,
        "sleep_watts": target.sleep_watts,
        "sources": list(target.sources),
        "speeds": [_speed(speed) for speed in target.speeds],
    }


def _speed(speed: Speed) -> dict[str, Any]:
    return {
        "name": speed.name,
        "implementation": speed.implementation,
        "calibration": speed.calibration,
        "off_by_at_most": speed.worst,
        "checks": [
            {
                "what": check.what,
                "published": check.published,
                "predicted": check.predicted,
                "unit": check.unit,
                "error": check.error,
                "source": check.source,
            }
            for check in speed.checks
        ],
    }


def _choice(choice: Choice, target: Target) -> dict[str, Any]:
    candidate, memory = choice.candidate, choice.memory
    return {
        "cut": candidate.cut,
        "widths": str(candidate.widths),
        "fits": choice.fits,
        "exact": {
            "latent": {"shape": list(choice.program.latent_shape), "bytes": choice.program.latent_bytes},
            "program": memory.program,
            "arena": memory.arena,
            "by_purpose": memory.by_purpose,
            "fullest_moment": _moment(choice),
            "operations": {phase: {kind: choice.operations.phase(phase)[kind] for kind in KINDS} for phase in PHASES},
            "numbers_changed_by_a_step": choice.operations.update,
        },
        "needs": {
            "ram": choice.ram,
            "flash": choice.flash,
            "of_which_assumed": {"code": target.code, "stack": STACK_BYTES, "variables": VARIABLE_BYTES},
        },
        "estimates": [_estimate(one, hours) for one, hours in zip(choice.estimates, choice.lifetimes, strict=True)],
    }


def _moment(choice: Choice) -> str:
    """When most of the shared memory is taken, in words."""
    memory, program = choice.memory, choice.program
    moment = memory.moment
    if moment == memory.layers:
        return "head"
    backward = moment > memory.layers
    layer = program.layers[2 * memory.layers - moment if backward else moment]
    return f"{'backward' if backward else 'forward'} of {layer.name or layer.kind}"


def _estimate(one: Estimate, hours: float | None) -> dict[str, Any]:
    seconds = {"forward": one.forward, "backward": one.backward, "experience": one.experience}
    return {
        "speed": one.speed.name,
        "seconds": seconds,
        "joules": {name: value * one.watts for name, value in seconds.items()},
        "lifetime_hours": hours,
        "off_by_at_most": one.speed.worst,
    }
