"""Time of one training step of BinaryNet, batch 100, Adam: low memory against PyTorch, and against W23's prototype."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from everbit.benchmarks.timing import clock_for, interleaved, milliseconds, ratio
from everbit.zoo.memory.measure import TrainingRun, training_step
from everbit.zoo.registry import build

BATCH = 100
MOST_TURNS = 5  # of some seconds each
PROTOTYPE_SECONDS = 36.5
"""A step of the published C++ program on one thread of such a machine (docs/low_memory.md)."""


def _contender(low_memory: bool) -> Callable[[], None]:
    torch.manual_seed(0)
    step = training_step(build("binarynet"), TrainingRun("binarynet", BATCH, low_memory=low_memory))
    images, labels = torch.rand(BATCH, 3, 32, 32).mul_(2).sub_(1), torch.randint(10, (BATCH,))
    return lambda: step(images, labels)


def measure(repeats: int, threads: int) -> dict[str, object]:
    """Both in turns, in one process."""
    torch.set_num_threads(threads)
    contenders = {"everbit": _contender(True), "torch": _contender(False)}
    times = interleaved(contenders, min(repeats, MOST_TURNS), clock_for(threads))
    return {
        "binarynet_b100_step_speedup_vs_torch_standard": ratio(times, "torch", "everbit"),
        "binarynet_b100_step_speedup_vs_w23_prototype": PROTOTYPE_SECONDS / float(np.median(times["everbit"])),
        "training_step": {"milliseconds": milliseconds(times)},
    }
