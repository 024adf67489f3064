"""QuickNet at 224x224 pixels with random weights, as the engine runs it."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from everbit.benchmarks.random_images import SEED
from everbit.compile.compiler import compile_program
from everbit.compile.program import Program
from everbit.quantize.widths import Widths
from everbit.zoo.inputs import to_input
from everbit.zoo.registry import build

SIDE = 224  # pixels
CALIBRATION_IMAGES = 8
CUT = "transition3.blur"
"""What the last real 1x1 convolution reads, (7, 7, 256): the paper's latent."""


def images(count: int) -> NDArray[np.uint8]:
    """uint8 [count, 224, 224, 3] of noise, the same ones every time."""
    return np.random.default_rng(SEED).integers(0, 256, (count, SIDE, SIDE, 3), np.uint8)


@cache
def random_network() -> nn.Module:
    """QuickNet, 1000 classes, random weights and the batch-norm statistics that belong to them, in evaluation mode."""
    torch.manual_seed(SEED)
    network = build("quicknet")
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # the statistics of all that passes, not a moving average
    with torch.no_grad():
        network.train()(to_input(images(CALIBRATION_IMAGES)))
    return network.eval()


def random_program(cut: str, widths: str, keep_classifier: bool) -> Program:
    """The network compiled; widths: F,BIN,NONBIN,LATENT."""
    return compile_program(
        random_network(),
        images(CALIBRATION_IMAGES),
        cut=cut,
        widths=Widths.parse(widths),
        keep_classifier=keep_classifier,
    )
