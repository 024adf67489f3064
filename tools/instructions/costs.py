#!/usr/bin/env python3
"""What an operation costs in instructions: `python tools/instructions/costs.py` from the top of the repository.

Small networks are exported, run on a Cortex-M4 and on 64-bit ARM as `count.py` does, and their instructions shared out
among the operations that `everbit plan` counts: forward, backward and updates. The table it prints is that of
`everbit.plan.counted_speeds`; the packaged model, which no cost was made from, is what it is checked on.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tools"))

from everbit.compile.compiler import compile_program  # noqa: E402
from everbit.compile.program import Program  # noqa: E402
from everbit.data.datasets import load  # noqa: E402
from everbit.formats.exporters.c import export_c  # noqa: E402
from everbit.formats.model_file import load_program  # noqa: E402
from everbit.learner.settings import Settings  # noqa: E402
from everbit.plan.memory import learner_memory  # noqa: E402
from everbit.plan.operations import FORWARD, FROZEN, INPUTS, KINDS, VALUES, WEIGHTS, operations  # noqa: E402
from everbit.quantize.widths import Widths  # noqa: E402
from everbit.zoo.packaged import packaged_model  # noqa: E402
from everbit.zoo.registry import build  # noqa: E402
from instructions.count import FOLDER, WAYS, Way, build_plugin, on_a_board, on_a_system  # noqa: E402

BATCH = 8
CLASSES = 2
COSTS = [
    *((phase, kind) for phase in (FORWARD, INPUTS, WEIGHTS) for kind in KINDS if (phase, kind) != (WEIGHTS, VALUES)),
    ("update", ""),
]
"""A frozen layer costs what a learnable one does forward."""

SWEEPS = 100_000

SAMPLES = (
    ("quicknet", 0.25, 64, "transition3.blur", "8,16,16,1"),
    ("quicknet", 0.25, 64, "transition2.blur", "8,1,16,1"),
    ("quicknet", 0.5, 32, "transition2.blur", "8,8,16,1"),
    ("vgg_small", 0.125, 32, "block5", "8,8,16,1"),
    ("birealnet18", 0.25, 32, "stage4.block1", "8,8,16,1"),
    ("reactnet18", 0.25, 32, "stage4.block1", "8,16,16,1"),
    ("reactnet18", 0.5, 32, "stage3.block4.add", "8,1,16,1"),
    ("vgg_small", 0.25, 32, "block5.conv", "8,16,16,1"),
    ("vgg_small", 0.5, 32, "block5", "8,1,16,1"),
    ("birealnet18", 0.5, 32, "stage3.block1", "8,1,16,1"),
    ("cnv", 0.5, 32, "block4", "8,8,16,1"),
    ("quicknet_small", 0.5, 32, "transition3.blur", "8,16,16,1"),
    ("mobilenet_v1", 0.25, 64, "block11", "8,1,16,8"),
    ("mobilenet_v1", 0.5, 32, "block8", "8,1,16,8"),
    ("mobilenet_v2", 0.35, 64, "block13", "8,1,16,8"),
    ("mobilenet_v2", 0.5, 32, "block16", "8,1,16,8"),
)
"""Network, width, pixels of a side, cut, widths."""

CHECKED = ("birealnet18.everbit", "8,16,16,1")


@dataclass(frozen=True)
class Sample:
    """Instructions of one thing that a program did, and its operations in the order of COSTS."""

    name: str
    instructions: int
    operations: list[float]


def sample_program(name: str, width: float, side: int, cut: str, widths: str) -> Program:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = build(name, width, CLASSES, "cifar" if side <= 32 else "imagenet" if name != "birealnet18" else None)
    images = np.asarray(load("fashion_demo").fitted((side, side, 3)).train_images[:16])
    return compile_program(network.eval(), images, cut=cut, widths=Widths.parse(widths))


def samples(way: Way, name: str, program: Program, widths: str) -> Iterator[Sample]:
    """A step of BATCH patterns, and one prediction: what one more epoch, and one more image of a class, add."""
    settings = Settings("naive", classes=CLASSES, batch_new=BATCH, batch_replayed=0)
    dataset = load("fashion_demo").fitted(program.input_shape)
    count = on_a_board if way.machine == "Cortex-M4" else on_a_system
    totals = []
    for epochs, tests in ((1, 1), (2, 1), (1, 2)):
        export_c(program, name, way.project, dataset, settings, widths, images=BATCH, tests=tests, epochs=epochs)
        totals.append(count(way))
    memory = learner_memory(program, settings, Widths.parse(widths), 4)
    counted = operations(program, settings, Widths.parse(widths), memory.gradients)
    step = [BATCH * counted.work[cost] for cost in COSTS[:-1]] + [counted.update]
    forward = {kind: counted.work[FROZEN, kind] + counted.work[FORWARD, kind] for kind in KINDS}
    image = [forward[kind] if phase == FORWARD else 0 for phase, kind in COSTS[:-1]] + [0]
    yield Sample(f"{name}, a step", (totals[1] - totals[0]) // 2, step)
    yield Sample(f"{name}, an image", (totals[2] - totals[0]) // CLASSES, image)


def shared_out(taken: list[Sample]) -> list[float]:
    """Instructions an operation: least squares of the samples' relative errors, none below 0, one cost at a time."""
    counts = np.array([[count / sample.instructions for count in sample.operations] for sample in taken])
    costs, rest = np.zeros(len(COSTS)), np.ones(len(taken))
    for _ in range(SWEEPS):
        for index, column in enumerate(counts.T):
            better = max(0.0, costs[index] + column @ rest / (column @ column))
            rest -= (better - costs[index]) * column
            costs[index] = better
    return [float(cost) for cost in costs]


def measure(way: Way) -> dict[str, object]:
    taken = []
    for name, width, side, cut, widths in SAMPLES:
        program = sample_program(name, width, side, cut, widths)
        for sample in samples(way, f"{name}-{width:g}-{side}", program, widths):
            print(f"  {sample.name:<40} {sample.instructions:>14,}", flush=True)
            taken.append(sample)
    costs = shared_out(taken)
    model, widths = CHECKED
    checks = list(samples(way, model, load_program(packaged_model(Path(model).stem)), widths))
    for sample in (*taken, *checks):
        error = float(np.dot(costs, sample.operations)) / sample.instructions - 1
        print(f"  {sample.name:<40} {sample.instructions:>14,} {error:>+7.1%}", flush=True)
    return {
        "columns": [" ".join(cost).strip() for cost in COSTS],
        "costs": {" ".join(cost).strip(): round(value, 4) for cost, value in zip(COSTS, costs, strict=True)},
        "checks": [(check.name, check.instructions, round(float(np.dot(costs, check.operations)))) for check in checks],
        "samples": [(s.name, s.instructions, s.operations) for s in (*taken, *checks)],
    }


def main() -> None:
    build_plugin()
    results = {}
    for way in WAYS:
        if (way.machine, way.kernels) in (("Cortex-M4", "dsp"), ("64-bit ARM", "neon")):
            print(f"{way.machine}, {way.kernels}", flush=True)
            results[f"{way.machine} {way.kernels}"] = measure(way)
            (FOLDER / "costs.json").write_text(json.dumps(results, indent=1))
    for name, result in results.items():
        print(name, json.dumps(result["costs"]), json.dumps(result["checks"]))


if __name__ == "__main__":
    main()
