"""R21's memory: what a learner of 3,000 latents takes, planned for a processor with 32-bit addresses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from everbit.compile.compiler import compile_program
from everbit.compile.program import Program
from everbit.experiments.reproductions.claims import Verdict
from everbit.experiments.reproductions.drawing import draw_bars
from everbit.experiments.reproductions.outcome import Outcome, Table
from everbit.experiments.reproductions.scales import Scale
from everbit.learner.settings import Settings, program_widths
from everbit.plan.memory import EXPERIENCE, LEARNED, REPLAY, TABLES, learner_memory
from everbit.quantize.widths import Widths
from everbit.zoo.cuts import image_shape
from everbit.zoo.inputs import to_input
from everbit.zoo.registry import build

MB = 10**6
LIMIT = 64 * MB
CLASSES, LATENTS = 50, 3000
"""CORe50's classes, and latents of all of them."""

EXPERIENCE_IMAGES = 300
"""Images of an experience of NICv2-391, R21's protocol: a few seconds of video."""

ADDRESS_BYTES = 4
CALIBRATION_IMAGES = 2
IMAGE_SIZE = 128
"""Pixels a side of CORe50's images."""


@dataclass(frozen=True)
class Case:
    """A network at full width with its ImageNet stem. latent: bits. new: new patterns of a mini-batch, of 5 times that.

    claimed: whether it is R21's system, which has to fit.
    """

    network: str
    cut: str
    latent: int
    new: int = 16
    claimed: bool = True

    @property
    def name(self) -> str:
        bits = "1 bit" if self.latent == 1 else f"{self.latent} bits"
        return f"{self.network} at {self.cut}, {bits}, mini-batches of {5 * self.new}"


CASES = (
    Case("mobilenet_v1", "block12.depthwise", 8, new=8),
    Case("mobilenet_v1", "block12.depthwise", 8, claimed=False),
    Case("mobilenet_v1", "pool", 8),
    Case("efficientnet_lite0", "block15", 8),
    Case("quicknet", "transition3.blur", 1),
    Case("birealnet18", "stage4.block1", 1),
)
"""Counted from 0, the convolution that the first is cut behind is MobileNetV1's number 23."""


def case_program(case: Case) -> Program:
    """Random weights: what a learner takes depends on shapes and widths, but for channels that 8 bits need twice."""
    torch.manual_seed(0)
    shape = image_shape(case.network, "imagenet", IMAGE_SIZE)
    pixels = np.random.default_rng(0).integers(0, 256, (CALIBRATION_IMAGES, *shape), np.uint8)
    network = build(case.network, stem="imagenet")
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # statistics of these images, without which deep activations vanish
    with torch.no_grad():
        network.train()(to_input(pixels))
    return compile_program(network, pixels, cut=case.cut, widths=Widths(latent=case.latent))


def case_memory(program: Program, case: Case) -> dict[str, int]:
    """Bytes by purpose of a learner with R21's replay memory; program: the constants, which a device only reads."""
    settings = Settings(
        classes=CLASSES,
        replay_per_class=LATENTS // CLASSES,
        experience_images=EXPERIENCE_IMAGES,
        batch_new=case.new,
        batch_replayed=4 * case.new,
    )
    widths = program_widths(program.q_f, program.latent_bits, None)
    memory = learner_memory(program, settings, widths, ADDRESS_BYTES)
    return {
        REPLAY: memory.by_purpose[REPLAY],
        "latents of an experience": memory.by_purpose[EXPERIENCE],
        "program": memory.program,
        LEARNED: memory.by_purpose[LEARNED],
        "activations, gradients, scratch": memory.shared,
        TABLES: memory.by_purpose[TABLES],
    }


def r21_memory_outcome(scale: Scale) -> Outcome:
    """R21's whole system in memory, and binary networks with latents of one bit beside it."""
    programs = {case: case_program(case) for case in CASES}
    uses = {case: case_memory(program, case) for case, program in programs.items()}
    totals = {case: sum(use.values()) for case, use in uses.items()}
    purposes = list(next(iter(uses.values())))
    verdicts = [
        Verdict(f"{case.name}: less than 64 MB", f"{total / MB:.1f} MB", (LIMIT - total) / MB, "MB")
        for case, total in totals.items()
        if case.claimed
    ]
    rows = [
        (
            case.name,
            f"{programs[case].latent_bytes:,}",
            *(f"{size:,}" for size in use.values()),
            f"{totals[case] / MB:.1f} MB",
        )
        for case, use in uses.items()
    ]
    bars = {
        REPLAY: [use[REPLAY] / MB for use in uses.values()],
        "total": [total / MB for total in totals.values()],
    }
    return Outcome(
        "Memory of learning with 3,000 latents",
        "R21: a whole system with 3,000 latents of 8 bits takes less than 64 MB.",
        verdicts,
        {
            case.name: {**use, "latent": programs[case].latent_bytes, "total": totals[case]}
            for case, use in uses.items()
        },
        Table(("network", "a latent", *purposes, "total"), rows),
        draw=lambda: draw_bars([case.name for case in CASES], bars, "MB"),
        notes=(
            f"Bytes, planned for scalar kernels and 32-bit addresses; {CLASSES} classes, {LATENTS // CLASSES} latents "
            f"of each, experiences of {EXPERIENCE_IMAGES} images of {IMAGE_SIZE} pixels, activations of 8 bits, "
            "gradients and what learns of 16.",
            "The program is what a device may keep in flash.",
        ),
    )
