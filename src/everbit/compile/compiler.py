"""torch module -> program: trace, calibrate, cut, lower."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from copy import deepcopy

import numpy as np
from numpy.typing import NDArray
from torch import nn

from everbit import engine
from everbit.compile.classifier import lower_head, network_head
from everbit.compile.cut import check_cut, cut_point, find_cut, lower_latent, nodes_behind
from everbit.compile.image import program_image
from everbit.compile.lowering import Lowering
from everbit.compile.program import Program
from everbit.compile.rehearsal import Rehearsal
from everbit.compile.report import Compilation
from everbit.compile.rules import lower
from everbit.compile.rules.image import image
from everbit.compile.trace import trace
from everbit.errors import CompileError, ConfigurationError, ImageError
from everbit.nn.binary import BinaryConv2d
from everbit.quantize.calibrate import Method, calibrate
from everbit.quantize.equalize import equalize
from everbit.quantize.ranges import EXTREMES, RANGES
from everbit.quantize.split import split_channels
from everbit.quantize.widths import Widths

LATENT_MAGNITUDE = 0.125
"""Size every latent binary weight starts from: a backbone keeps signs only, and the learning rates suit this."""

FAITHFUL_LATENT = 8
"""Bits of a latent behind which a network still is itself: its own classes then keep the statistics they were trained
with. Behind a coarser one batch norms are measured anew, as they always are for classes yet to come."""


def compile_program(
    network: nn.Module,
    images: NDArray[np.uint8],
    *,
    cut: str,
    widths: Widths | None = None,
    latent_magnitude: float = LATENT_MAGNITUDE,
    calibration: str = EXTREMES,
    keep_classifier: bool = False,
    labels: Sequence[Hashable] | None = None,
    metadata: dict[str, object] | None = None,
    examine: Callable[[Compilation], None] | None = None,
) -> Program:
    """Compiles a network to a program cut after the module `cut`, such as "stage4.block1", or at its "input".

    images: uint8 [N, H, W, C], the calibration images (the protocols: those of experience 0); the network's input is
    images / 127.5 - 1. calibration: how ranges of activations follow from them, a key of RANGES. keep_classifier: the
    network's own classes stay, so that the program knows them from the start, by the rows of its last linear layer, or
    where there is none by its outputs as they are; labels: their names, 0..n-1 without them. Else the last linear layer
    is dropped and a learner grows its own. examine: is shown how the program came about. Raises CompileError where the
    network cannot be traced, cut there, or lowered, ImageError for images of another form, ConfigurationError for
    labels that do not fit or an unknown calibration.
    """
    widths = widths or Widths()
    channels = _input_channels(network)
    if images.ndim != 4 or images.shape[-1] not in channels or images.dtype != np.uint8 or len(images) == 0:
        raise ImageError(
            f"calibration images are {images.dtype} {list(images.shape)}: "
            f"pass uint8 [N, height, width, {' or '.join(map(str, channels))}], N >= 1"
        )
    if calibration not in RANGES:
        raise ConfigurationError(f"unknown calibration {calibration!r}: choose one of {', '.join(RANGES)}")
    graph = deepcopy(trace(network))
    nodes = list(graph.graph.nodes)
    at = find_cut(graph, cut)
    learnable = nodes_behind(at)
    own_head = network_head(graph)
    features = own_head.features
    check_cut(graph, at, features, cut)
    point = cut_point(graph, at)
    own_statistics = keep_classifier and (widths.latent >= FAITHFUL_LATENT or point.signs)
    frozen = [node for node in nodes[: nodes.index(at) + 1] if node not in learnable]
    if widths.q_f == 8:
        equalize(graph, images, frozen[1:])
        split_channels(graph, images, frozen[1:])
    method = Method(calibration, widths.q_f, widths.latent, own_statistics)
    measured = calibrate(graph, point, features, images, method, learnable)

    facts: dict[str, object] = {"cut": cut, "widths": str(widths), "calibration_images": len(images)}
    facts |= {"calibration_method": calibration, **(metadata or {})}
    # Finer activations have finer weights, which need no such care.
    rehearsal = Rehearsal(graph, images, frozen) if widths.q_f == 8 else None
    low = Lowering(graph, measured, widths, learnable, latent_magnitude, rehearsal=rehearsal)
    for node in nodes[: nodes.index(features) + 1]:
        if node.op == "placeholder":
            image(low, node, images.shape)
        else:
            lower(low, node)
        if rehearsal is not None and node in frozen:
            rehearsal.follow(node, low.numbers(node), part=node in low.deferred)
        if node is at:
            assert measured.latent is not None
            lower_latent(low, at, measured.latent)
    assert measured.features is not None
    head = lower_head(low, own_head, measured.features, keep_classifier, labels)
    program = Program(tuple(low.builder.tensors), tuple(low.builder.layers), head, facts)
    try:
        engine.check_program(program_image(program))
    except ValueError as error:
        raise CompileError(f"the engine refuses the program cut at {cut}: {error}") from error
    if examine is not None:
        examine(Compilation(network, low, frozen, own_head, program))
    return program


def _input_channels(network: nn.Module) -> tuple[int, ...]:
    """Channels of the images a network takes: those of its first convolution, gray or color without one."""
    for module in network.modules():
        if isinstance(module, (nn.Conv2d, BinaryConv2d)):
            return (module.in_channels,)
    return (1, 3)
