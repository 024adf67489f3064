"""The most memory that training from scratch takes, each network in processes of its own: PyTorch's, then everbit's."""

from __future__ import annotations

from everbit.benchmarks.measurements import TRAINED
from everbit.zoo.memory.measure import TrainingRun
from everbit.zoo.memory.report import memory_report

MIB = 2**20
LARGE_STEM = "imagenet"
"""Of a network that has it: W23's residual networks read images of 224 pixels."""


def measure(repeats: int, threads: int) -> dict[str, object]:
    """Peaks of three steps above the bare process, their ratio, and how far the plan is from everbit's."""
    result: dict[str, object] = {}
    for field, (model, batch, optimizer) in TRAINED.items():
        stem = LARGE_STEM if model == "birealnet18" else None
        report = memory_report(TrainingRun(model, batch, optimizer, stem=stem, threads=threads), measured=True)
        result[field] = {
            "measured_reduction": report["measured_reduction"],
            "peak_mib": report["measured"]["peak_bytes"] / MIB,
            "standard_peak_mib": report["measured_standard"]["peak_bytes"] / MIB,
            "plan_error": abs(report["planned_over_measured"] - 1),
        }
    return result
