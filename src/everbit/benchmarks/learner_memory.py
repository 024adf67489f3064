"""What a learner really touches of its memory while it learns, against what was planned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everbit._engine import heap_bytes
from everbit.benchmarks.random_images import cyclic_labels, random_images
from everbit.benchmarks.training_steps import WIDTHS, start_learner
from everbit.formats.model_file import load_program
from everbit.zoo.packaged import packaged_model

MODEL = "birealnet18"
COLORS = (0x5A, 0xA5)
"""Two, of opposite bits: a byte that happens to end as one of them was touched by the other's account."""

CLASSES = 10
IMAGES = 80
EXPERIENCES = 3


def measure(repeats: int, threads: int) -> dict[str, object]:
    """The packaged model at each of the widths; the fields are those of 16 bits, the ratio is the worst of all.

    One thread; nothing is timed, so `repeats` has no effect.
    """
    details = {name: _measured(name) for name in WIDTHS}
    ratios = [detail["peak_over_planned"] for detail in details.values()]
    growths = [detail["heap_growth_bytes"] for detail in details.values()]
    return {
        "learner_peak_bytes": details["q16"]["peak_bytes"],
        "planned_bytes": details["q16"]["planned_bytes"],
        "learner_peak_over_planned": max(ratios, key=lambda value: abs(value - 1)),
        "learner_heap_growth_bytes": None if None in growths else max(growths),
        "learner_memory": details,
    }


def _measured(widths: str) -> dict[str, Any]:
    """The same run in memory of each color."""
    runs = [_learning_run(widths, color) for color in COLORS]
    planned, peak = runs[0]["planned"], max(run["touched"] for run in runs)
    return {
        "planned_bytes": planned,
        "peak_bytes": peak,
        "peak_over_planned": peak / planned,
        "heap_growth_bytes": runs[0]["heap"] if runs[0]["heap"] is None else max(run["heap"] for run in runs),
        "same_state_in_both_colors": runs[0]["state"] == runs[1]["state"],
    }


def _learning_run(widths: str, color: int) -> dict[str, Any]:
    """Three experiences and a prediction in painted memory."""
    learner = start_learner(load_program(packaged_model(MODEL)), widths, classes=CLASSES, images=IMAGES)
    images, labels, heap = random_images(IMAGES), cyclic_labels(IMAGES, CLASSES), _Heap()
    learner.paint(color)
    for _ in range(EXPERIENCES):
        heap.during(lambda: learner.add(images, labels))
        for _ in range(learner.begin_training(1)):
            heap.during(learner.train_step)
        heap.during(learner.end_experience)
    learner.logits(images[:1])
    return {
        "planned": learner.memory()["total"],
        "touched": learner.touched(color),
        "heap": heap.growth,
        "state": learner.state(),
    }


class _Heap:
    """Bytes by which the heap grew during calls, shrinking not set off; None where the C library does not say."""

    def __init__(self) -> None:
        self.growth: int | None = None if heap_bytes() is None else 0

    def during(self, call: Callable[[], object]) -> None:
        before = heap_bytes()
        call()
        after = heap_bytes()
        if self.growth is not None and before is not None and after is not None:
            self.growth += max(0, after - before)
