"""What a learner computes, counted from its program: nothing here is estimated."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass

from everbit.compile.program import Layer, Program
from everbit.learner.settings import Settings
from everbit.quantize.widths import Widths
from everbit.zoo.program_statistics import program_statistics

FROZEN, FORWARD, INPUTS, WEIGHTS = "frozen", "forward", "gradients of inputs", "gradients of weights"
PHASES = (FROZEN, FORWARD, INPUTS, WEIGHTS)
BACKWARD = (INPUTS, WEIGHTS)
"""frozen: the layers up to the cut, once an image. The others, of those behind it and the head, once a pattern."""

BINARY, DENSE, DEPTHWISE, SCALES, VALUES = "binary", "dense", "depthwise", "scales", "values"
KINDS = (BINARY, DENSE, DEPTHWISE, SCALES, VALUES)
"""Multiply-adds of binary convolutions, of ordinary ones and the head, of filters of one channel; values that layers
with learned factors write (batch norm, RPReLU), and those of all other layers: forward, or of their gradients.

Forward, channels of binary convolutions are counted as they are packed, in words of 64."""

_WORD = 64
_FILTERS = ("depthwise_convolution", "blur_pool")
_SCALES = ("batch_norm", "rprelu")

Work = Counter[tuple[str, str]]
"""Operations by phase and kind."""


@dataclass(frozen=True)
class Operations:
    """Of one image or pattern by phase and kind; update: numbers that one mini-batch's step changes."""

    work: Work
    update: int

    def phase(self, name: str) -> Counter[str]:
        """Operations of one phase by kind."""
        return Counter({kind: count for (phase, kind), count in self.work.items() if phase == name})


def operations(program: Program, settings: Settings, widths: Widths, gradients: Set[int]) -> Operations:
    """Counts a program; gradients: the tensors that have one (LearnerMemory.gradients)."""
    work: Work = Counter()
    update = 0
    for index, (layer, statistics) in enumerate(zip(program.layers, program_statistics(program), strict=True)):
        kind = _kind(layer)
        macs = statistics.binary_macs + statistics.other_macs
        learnable = index > program.latent_index
        written = macs or _elements(program, layer.output)
        packed = _packed(program, layer, macs) if kind == BINARY else written
        work[FORWARD if learnable else FROZEN, kind] += packed
        if not learnable:
            continue
        if settings.rule.train_body and _trained(layer, widths):
            work[WEIGHTS, kind] += written
            update += statistics.trainable
        for read in layer.inputs:
            if read in gradients:
                work[INPUTS, kind] += macs or _elements(program, read)
    classes = len(program.head.labels) + settings.classes
    head = classes * program.features
    work[FORWARD, DENSE] += head
    work[WEIGHTS, DENSE] += head
    if program.layers[-1].output in gradients:
        work[INPUTS, DENSE] += head
    return Operations(+work, update + head)


@dataclass(frozen=True)
class Experience:
    """One experience: images that come in, mini-batches that train on them, patterns in all of these."""

    images: int
    steps: int
    patterns: int


def experience(settings: Settings, images: int) -> Experience:
    """An experience of so many images where the replay memory is not empty (docs/arithmetic.md, section 6)."""
    replayed = settings.batch_replayed if settings.rule.replay and settings.replay_slots else 0
    new = settings.batch_new
    sizes = [min(new, images - start) for start in range(0, images, new)]
    patterns = sum(size + math.ceil(replayed * size / new) for size in sizes)
    return Experience(images, settings.epochs * len(sizes), settings.epochs * patterns)


def _kind(layer: Layer) -> str:
    if layer.kind == "binary_convolution":
        return BINARY
    if layer.kind == "convolution":
        return DENSE
    if layer.kind in _FILTERS:
        return DEPTHWISE
    return SCALES if layer.kind in _SCALES else VALUES


def _packed(program: Program, layer: Layer, macs: int) -> int:
    """Multiply-adds of a binary convolution with the channels that fill up the last word."""
    channels = program.tensors[layer.inputs[0]].channels
    return macs // channels * (-(-channels // _WORD) * _WORD)


def _elements(program: Program, tensor: int) -> int:
    of = program.tensors[tensor]
    return of.height * of.width * of.channels


def _trained(layer: Layer, widths: Widths) -> bool:
    """Whether a layer behind the cut has parameters that learn: binary weights of one bit do not."""
    return bool(layer.parameters) and (layer.kind != "binary_convolution" or widths.q_bin > 1)
