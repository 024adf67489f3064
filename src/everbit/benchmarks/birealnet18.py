"""BiReal-18 cut at (4, 4, 512), as the engine runs it and as the same layers in PyTorch float32."""

from __future__ import annotations

from functools import cache

import torch
from torch import nn

from everbit.benchmarks.random_images import SEED, random_images
from everbit.compile.compiler import compile_program
from everbit.compile.program import Program
from everbit.zoo.birealnet import BLOCKS, BiRealBlock, ResidualNet, birealnet18
from everbit.zoo.cuts import DEFAULT_CUTS
from everbit.zoo.inputs import to_input

WIDTH = 1.0
CLASSES = 10
CALIBRATION_IMAGES = 32


@cache
def random_network() -> ResidualNet:
    """BiReal-18 with random weights and the batch-norm statistics that belong to them, in evaluation mode."""
    torch.manual_seed(SEED)
    network = birealnet18(WIDTH, CLASSES)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # the statistics of all that passes, not a moving average
    with torch.no_grad():
        network.train()(to_input(random_images(CALIBRATION_IMAGES)))
    return network.eval()


@cache
def random_program() -> Program:
    """The network compiled with 8-bit activations and one-bit latents; the other widths are the learner's choice."""
    return compile_program(random_network(), random_images(CALIBRATION_IMAGES), cut=DEFAULT_CUTS["birealnet18"])


def plain() -> ResidualNet:
    """The same layers with ordinary weights and no signs: nothing is binarized, which is PyTorch's best case."""
    torch.manual_seed(SEED)
    network = birealnet18(WIDTH, CLASSES)
    for block in [module for module in network.modules() if isinstance(module, BiRealBlock)]:
        conv = block.conv
        block.sign = nn.Identity()  # type: ignore[assignment]
        block.conv = nn.Conv2d(  # type: ignore[assignment]
            conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding, bias=False
        )
    return network


def halves(network: ResidualNet) -> tuple[nn.Module, nn.Module]:
    """The layers up to the cut, and those behind it."""
    stages = [network.get_submodule(name) for name in ("stem", "stage1", "stage2", "stage3")]
    blocks = [network.get_submodule(f"stage4.block{index}") for index in range(1, BLOCKS + 1)]
    tail = [network.get_submodule(name) for name in ("pool", "flatten", "head")]
    return nn.Sequential(*stages, blocks[0]), nn.Sequential(*blocks[1:], *tail)
