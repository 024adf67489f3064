"""BiReal-18 up to (4, 4, 512) on one image, against the same layers in PyTorch float32."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from everbit import engine
from everbit.benchmarks.birealnet18 import halves, plain, random_network, random_program
from everbit.benchmarks.random_images import random_images
from everbit.benchmarks.timing import clock_for, compared, interleaved, several
from everbit.compile.image import program_image
from everbit.zoo.inputs import to_input

FIELD = "frozen_forward_speedup_vs_torch_fp32"
IMAGES = 8


def measure(repeats: int, threads: int) -> dict[str, object]:
    """Against the binary network as PyTorch runs it in float32, signs included, in its default memory layout.

    Beside it, against plain convolutions of the same shapes with nothing binarized, and those with channels last.
    """
    torch.set_num_threads(threads)
    image = random_images(1)
    options = {"q_bin": 16, "q_nonbin": 16, "classes": 10, "cwr": True, "learning_rates": [], "threads": threads}
    network = engine.Network(program_image(random_program()), 1, {**options, "as_in_use": True})
    pixels = to_input(image)
    last = torch.channels_last
    peers = {
        "torch": _forward(halves(random_network())[0], pixels.contiguous()),
        "torch_plain": _forward(halves(plain())[0], pixels.contiguous()),
        "torch_plain_channels_last": _forward(halves(plain())[0].to(memory_format=last), pixels),  # type: ignore[call-overload]
    }
    contenders = {"everbit": lambda: network.encode(image), **peers}
    turns = {name: several(run, IMAGES) for name, run in contenders.items()}
    times = interleaved(turns, repeats, clock_for(threads))
    details = {peer: compared(times, peer, "everbit") for peer in peers}
    return {
        FIELD: details["torch"]["ratio"],
        f"{FIELD}_plain": details["torch_plain"]["ratio"],
        "frozen_forward": {"images": IMAGES, **details},
    }


def _forward(layers: nn.Module, pixels: Tensor) -> Callable[[], None]:
    layers.eval()

    def run() -> None:
        with torch.no_grad():
            layers(pixels)

    return run
