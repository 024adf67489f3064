"""torch module -> program: trace, calibrate, cut, lower."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import nn

from everbit.compile.cut_network import LATENT_MAGNITUDE, CutNetwork
from everbit.compile.program import Program
from everbit.compile.report import Compilation
from everbit.quantize.ranges import EXTREMES
from everbit.quantize.widths import Widths


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
    usual_cuts: Sequence[str] = (),
) -> Program:
    """Compiles a network to a program cut after the module `cut`, such as "stage4.block1", or at its "input".

    images: uint8 [N, H, W, C], the calibration images (the protocols: those of experience 0); the network's input is
    images / 127.5 - 1. calibration: how ranges of activations follow from them, a key of RANGES. keep_classifier: the
    network's own classes stay, so that the program knows them from the start, by the rows of its last linear layer, or
    where there is none by its outputs as they are; labels: their names, 0..n-1 without them. Else the last linear layer
    is dropped and a learner grows its own. examine: is shown how the program came about. usual_cuts: of this network,
    for the error where `cut` is no module. Raises CompileError where the network cannot be traced, cut there, or
    lowered, ImageError for images of another form, ConfigurationError for labels that do not fit or an unknown
    calibration.
    """
    widths = widths or Widths()
    cut_network = CutNetwork(network, images, cut=cut, q_f=widths.q_f, calibration=calibration, usual_cuts=usual_cuts)
    return cut_network.program(
        widths,
        latent_magnitude=latent_magnitude,
        keep_classifier=keep_classifier,
        labels=labels,
        metadata=metadata,
        examine=examine,
    )
