"""A network cut in two: what stands before the cut is measured and lowered once, for programs of any latent."""

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
from everbit.quantize.calibrate import Method, calibrate_frozen, calibrate_learnable
from everbit.quantize.equalize import equalize
from everbit.quantize.ranges import EXTREMES, RANGES
from everbit.quantize.split import split_channels
from everbit.quantize.widths import Widths

LATENT_MAGNITUDE = 0.125
"""Size every latent binary weight starts from: a backbone keeps signs only, and the learning rates suit this."""

FAITHFUL_LATENT = 8
"""Bits of a latent behind which a network still is itself: its own classes then keep the statistics they were trained
with. Behind a coarser one batch norms are measured anew, as they always are for classes yet to come."""


class CutNetwork:
    """A network cut after one module, its frozen part calibrated and lowered; `program` does the rest.

    q_f: bits of activations. All else, and what it raises, as for `everbit.compile.compiler.compile_program`.
    """

    def __init__(
        self,
        network: nn.Module,
        images: NDArray[np.uint8],
        *,
        cut: str,
        q_f: int,
        calibration: str = EXTREMES,
        usual_cuts: Sequence[str] = (),
    ) -> None:
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
        self._network, self._cut, self._at = network, cut, find_cut(graph, cut, usual_cuts)
        self._head = network_head(graph)
        check_cut(graph, self._at, self._head.features, cut)
        self._point = cut_point(graph, self._at)
        self._frozen = nodes[: nodes.index(self._at) + 1]
        self._learnable = nodes[len(self._frozen) : nodes.index(self._head.features) + 1]
        if q_f == 8:
            equalize(graph, images, self._frozen[1:])
            split_channels(graph, images, self._frozen[1:])
        self._method = Method(calibration, q_f)
        self._measured = calibrate_frozen(graph, self._frozen, images, self._method)
        self._facts = {"calibration_images": len(images), "calibration_method": calibration}
        # Finer activations have finer weights, which need no such care.
        rehearsal = Rehearsal(graph, images, self._frozen) if q_f == 8 else None
        widths, learnable = Widths(q_f, q_nonbin=32), nodes_behind(self._at)
        self._low = low = Lowering(graph, self._measured[0], widths, learnable, LATENT_MAGNITUDE, rehearsal=rehearsal)
        for node in self._frozen:
            if node.op == "placeholder":
                image(low, node, images.shape)
            else:
                lower(low, node)
            if rehearsal is not None:
                rehearsal.follow(node, low.numbers(node), part=node in low.deferred)

    def program(
        self,
        widths: Widths,
        *,
        latent_magnitude: float = LATENT_MAGNITUDE,
        keep_classifier: bool = False,
        labels: Sequence[Hashable] | None = None,
        metadata: dict[str, object] | None = None,
        examine: Callable[[Compilation], None] | None = None,
    ) -> Program:
        """A program at widths with this q_f."""
        own_statistics = keep_classifier and (widths.latent >= FAITHFUL_LATENT or self._point.signs)
        measured = calibrate_learnable(
            self._low.graph,
            self._measured,
            self._point,
            self._head.features,
            self._method,
            widths.latent,
            own_statistics,
        )
        low = self._low.going_on(measured, widths, latent_magnitude)
        assert measured.latent is not None
        lower_latent(low, self._at, measured.latent)
        for node in self._learnable:
            lower(low, node)
        assert measured.features is not None
        head = lower_head(low, self._head, measured.features, keep_classifier, labels)
        facts: dict[str, object] = {"cut": self._cut, "widths": str(widths), **self._facts, **(metadata or {})}
        program = Program(tuple(low.builder.tensors), tuple(low.builder.layers), head, facts)
        try:
            engine.check_program(program_image(program))
        except ValueError as error:
            raise CompileError(f"the engine refuses the program cut at {self._cut}: {error}") from error
        if examine is not None:
            examine(Compilation(self._network, low, self._frozen, self._head, program))
        return program


def _input_channels(network: nn.Module) -> tuple[int, ...]:
    """Channels of the images a network takes: those of its first convolution, gray or color without one."""
    for module in network.modules():
        if isinstance(module, (nn.Conv2d, BinaryConv2d)):
            return (module.in_channels,)
    return (1, 3)
