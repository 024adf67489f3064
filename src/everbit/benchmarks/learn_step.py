"""One learn step of BiReal-18 behind (4, 4, 512) on 80 latents, against the same layers in PyTorch float32."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

from everbit.benchmarks.birealnet18 import CLASSES, halves, plain, random_program
from everbit.benchmarks.timing import clock_for, compared, interleaved
from everbit.benchmarks.training_steps import NEW, REPLAYED, WIDTHS, start_learner, training_step


def measure(repeats: int, threads: int) -> dict[str, object]:
    """Speedup by widths. PyTorch runs plain convolutions in its default memory layout, the faster one here."""
    torch.set_num_threads(threads)
    program = random_program()
    steps = {name: training_step(start_learner(program, name, threads=threads)) for name in WIDTHS}
    times = interleaved({**steps, "torch": _torch_step(program.latent_shape)}, repeats, clock_for(threads))
    details = {name: compared(times, "torch", name) for name in WIDTHS}
    return {
        "learn_step_speedup_vs_torch_fp32": {name: detail["ratio"] for name, detail in details.items()},
        "learn_step": details,
    }


def _torch_step(latent_shape: tuple[int, int, int]) -> Callable[[], object]:
    """Forward, cross entropy, backward and update on as many latents, which stand ready as floats."""
    height, width, channels = latent_shape
    learnable = halves(plain())[1].train()
    optimizer = torch.optim.SGD(learnable.parameters(), lr=1e-3)
    latents = torch.randn(NEW + REPLAYED, channels, height, width)
    labels = torch.arange(NEW + REPLAYED) % CLASSES

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(learnable(latents), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step
