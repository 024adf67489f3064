"""The memory that training steps really take, in a process of their own."""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everbit import _engine
from everbit.errors import EverbitError

if TYPE_CHECKING:
    from everbit.nn import Approximations

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
WARM_UP_WIDTH = 1 / 16


@dataclass(frozen=True)
class TrainingRun:
    """Steps of one network's training on random images.

    optimizer: "adam", "sgd" or "bop". low_memory: by everbit's layers and optimizers, with activations of `dtype`; else
    by PyTorch's in float32. It has no Bop: its SGD with momentum stands in, which remembers as much.
    """

    model: str
    batch: int
    optimizer: str = "adam"
    low_memory: bool = True
    width: float = 1.0
    stem: str | None = None
    classes: int | None = None
    dtype: str = "bfloat16"
    threads: int = 1
    steps: int = 3


@dataclass(frozen=True)
class Measured:
    """peak_bytes: the most resident memory of the process above what it had before the network was built; seconds: of
    the median step behind the first."""

    peak_bytes: int
    seconds: float


def approximations_of(run: TrainingRun) -> Approximations:
    """What a run in low memory leaves out: Bop trains weights without a latent."""
    from everbit.nn import Approximations

    return Approximations(dtype=run.dtype, latent_bits=1 if run.optimizer == "bop" else 16)


def can_measure() -> bool:
    """Whether this system says how much memory a process had."""
    return STATUS.exists() and RESET.exists()


def measure(run: TrainingRun) -> Measured:
    """Runs the steps in a fresh process. Raises EverbitError where the system cannot say, or the steps fail."""
    if not can_measure():
        raise EverbitError(
            "this system does not tell a process's peak memory: measure on Linux, or leave out --measure"
        )
    child = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import main; main()"],
        input=json.dumps(asdict(run)),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": str(run.threads)},
    )
    if child.returncode != 0:
        last = child.stderr.strip().splitlines()[-1:] or [f"exit status {child.returncode}"]
        raise EverbitError(f"the steps to be measured failed: {last[0]}; a smaller --batch takes less memory")
    return Measured(**json.loads(child.stdout))


def main() -> None:
    """The fresh process: reads a run, writes what it took."""
    print(json.dumps(asdict(_measured(TrainingRun(**json.load(sys.stdin))))))


def _kibibytes(name: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1])


def _measured(run: TrainingRun) -> Measured:
    import torch

    from everbit.zoo.cuts import CLASSES, NETWORKS
    from everbit.zoo.registry import build

    torch.set_num_threads(run.threads)
    torch.manual_seed(0)
    stem = run.stem or NETWORKS[run.model].stem
    rows, columns, channels = NETWORKS[run.model].stems[stem]
    classes = run.classes or CLASSES[stem]

    def train(width: float, steps: int) -> list[float]:
        network = build(run.model, width=width, classes=classes, stem=stem)
        step = training_step(network, run)
        images = torch.rand(run.batch, channels, rows, columns).mul_(2).sub_(1)
        labels = torch.randint(classes, (run.batch,))
        seconds = []
        for _ in range(steps):
            started = time.perf_counter()
            step(images, labels)
            seconds.append(time.perf_counter() - started)
        return seconds

    train(run.width * WARM_UP_WIDTH, 2)  # what is loaded once is no step's
    gc.collect()
    _engine.return_free_memory()
    before = _kibibytes("VmRSS:")
    RESET.write_text("5")  # the peak begins anew
    seconds = train(run.width, run.steps)
    return Measured((_kibibytes("VmHWM:") - before) * 1024, statistics.median(seconds[1:] or seconds))


def training_step(network: Any, run: TrainingRun) -> Any:
    """A function that trains the network on images and labels once."""
    import torch

    from everbit.nn import low_memory
    from everbit.zoo.pretrain import OPTIMIZERS

    optimizer = "sgd" if run.optimizer == "bop" and not run.low_memory else run.optimizer
    if run.low_memory:
        low_memory(network, approximations_of(run))
    trainer = OPTIMIZERS[run.low_memory, optimizer](network.parameters(), lr=1e-3)

    def step(images: torch.Tensor, labels: torch.Tensor) -> None:
        loss = torch.nn.functional.cross_entropy(network(images), labels)
        trainer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        trainer.step()

    return step
