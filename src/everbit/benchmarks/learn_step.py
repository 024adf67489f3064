"""One learn step of BiReal-18 behind (4, 4, 512) on 80 latents, against the same layers in PyTorch float32."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from everbit.benchmarks.birealnet18 import CLASSES, halves, plain, random_network, random_program
from everbit.benchmarks.timing import clock_for, compared, interleaved
from everbit.benchmarks.training_steps import NEW, REPLAYED, WIDTHS, start_learner, training_step

FIELD = "learn_step_speedup_vs_torch_fp32"


def measure(repeats: int, threads: int) -> dict[str, object]:
    """Speedup by widths over the binary network as PyTorch trains it in float32, signs and estimators included.

    Beside it, over plain convolutions of the same shapes, with nothing binarized. Both in PyTorch's default memory
    layout, the faster one here.
    """
    torch.set_num_threads(threads)
    program = random_program()
    steps = {name: training_step(start_learner(program, name, threads=threads)) for name in WIDTHS}
    peers = {
        "torch": _torch_step(halves(random_network())[1], program.latent_shape),
        "torch_plain": _torch_step(halves(plain())[1], program.latent_shape),
    }
    times = interleaved({**steps, **peers}, repeats, clock_for(threads))
    details = {peer: {name: compared(times, peer, name) for name in WIDTHS} for peer in peers}
    return {
        FIELD: {name: detail["ratio"] for name, detail in details["torch"].items()},
        f"{FIELD}_plain": {name: detail["ratio"] for name, detail in details["torch_plain"].items()},
        "learn_step": details,
    }


def _torch_step(learnable: nn.Module, latent_shape: tuple[int, int, int]) -> Callable[[], object]:
    """Forward, cross entropy, backward and update on as many latents, which stand ready as floats."""
    height, width, channels = latent_shape
    learnable.train()
    optimizer = torch.optim.SGD(learnable.parameters(), lr=1e-3)
    latents = torch.randn(NEW + REPLAYED, channels, height, width)
    labels = torch.arange(NEW + REPLAYED) % CLASSES

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(learnable(latents), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step
