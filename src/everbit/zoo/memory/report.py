"""What `everbit memory` says, as data."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from everbit.errors import ConfigurationError
from everbit.zoo.cuts import CLASSES, require_network
from everbit.zoo.memory.measure import TrainingRun, approximations_of, measure
from everbit.zoo.memory.plan import planned
from everbit.zoo.memory.steps import steps_of
from everbit.zoo.memory.w23 import MOMENTA, w23_count
from everbit.zoo.registry import build


def memory_report(run: TrainingRun, measured: bool = False, standard: bool = True) -> dict[str, Any]:
    """W23's count of a training run, everbit's plan and, if wanted, what it and PyTorch's (standard) took; bytes.

    Raises ConfigurationError for an unknown network, stem or optimizer, or a network without binary layers.
    """
    facts = require_network(run.model, run.stem)
    if run.optimizer not in MOMENTA:
        raise ConfigurationError(f"unknown optimizer {run.optimizer!r}: choose one of {', '.join(MOMENTA)}")
    stem = run.stem or facts.stem
    run = replace(run, stem=stem, classes=run.classes or CLASSES[stem])
    assert run.classes is not None
    steps = steps_of(build(run.model, width=run.width, classes=run.classes, stem=stem), facts.stems[stem])
    if not any(step.binary for step in steps):
        raise ConfigurationError(f"{run.model} has no binary layer: low-memory training is for binary networks")
    plan = planned(steps, run.batch, run.optimizer, approximations_of(run))
    report: dict[str, Any] = {
        **{name: getattr(run, name) for name in ("model", "width", "stem", "classes", "batch", "optimizer", "dtype")},
        "w23": [asdict(variable) for variable in w23_count(steps, run.batch, run.optimizer)],
        "standard": standard,
        "planned": plan | {"total": sum(plan.values())},
    }
    if measured:
        report["measured"] = asdict(measure(run))
        report["planned_over_measured"] = report["planned"]["total"] / report["measured"]["peak_bytes"]
        if standard:
            report["measured_standard"] = asdict(measure(replace(run, low_memory=False)))
            report["measured_reduction"] = report["measured_standard"]["peak_bytes"] / report["measured"]["peak_bytes"]
    return report
