"""The program that is to be exported: as it was compiled, or compiled now for the images that the device will see."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from everbit.compile.program import Program
from everbit.data.lazy_images import Images
from everbit.errors import ConfigurationError
from everbit.formats.model_file import load_program
from everbit.quantize.widths import Widths
from everbit.zoo.cuts import DEFAULT_CUTS, NETWORKS, usual_cuts
from everbit.zoo.packaged import packaged_backbone, packaged_model, packaged_names

CALIBRATION_IMAGES = 256
"""Most images that a network is compiled for."""

RANDOM = "the weights of {model} are random: give a backbone or another file for trained ones"

_PACKAGED_WIDTH = 0.5


def compiled(
    model: str, images: Images, widths: Widths | None, *, cut: str | None = None, width: float | None = None
) -> tuple[Program, str]:
    """The program of a model, and a note for its user, mostly empty.

    model: an .everbit file, the name of a packaged one, a network of the zoo (at half width with the package's weights
    where it has them, else with random ones), a backbone, or a file that can be imported. images: uint8 [N, H, W, C] of
    any size, to calibrate on. widths, cut, width: of what is not compiled yet. Raises ConfigurationError for options
    that do not fit, FormatError, UnsupportedError, CompileError.
    """
    if Path(model).suffix == ".everbit" or (model in packaged_names() and (cut, width) == (None, None)):
        if (cut, width) != (None, None):
            raise ConfigurationError(f"{model} is compiled, with its cut and width: leave --cut and --width out")
        return load_program(packaged_model(model)), ""
    if model not in NETWORKS and not Path(model).is_file():
        raise ConfigurationError(f"unknown model {model!r}: give the path of a file, or one of {', '.join(NETWORKS)}")
    if model not in NETWORKS and width is not None:
        raise ConfigurationError(f"{model} is a file with its own width: leave --width out")
    from everbit.compile.compiler import compile_program
    from everbit.data.images import fit_images
    from everbit.formats.exporters.source import network_of_a_file, network_of_the_zoo

    note = ""
    path = packaged_backbone(model) if width in (None, _PACKAGED_WIDTH) else None
    if model not in NETWORKS:
        source = network_of_a_file(Path(model))
    elif path is not None:
        source = network_of_a_file(path)
    else:
        source = network_of_the_zoo(model, 1.0 if width is None else width, None, None, 0)
        note = RANDOM.format(model=model)
    network = source.facts["network"]
    if cut is None and network not in DEFAULT_CUTS:
        raise ConfigurationError(f"{model} has no usual place to be cut: name one with --cut (docs/compile.md)")
    spread = np.arange(len(images))[:: max(1, len(images) // CALIBRATION_IMAGES)][:CALIBRATION_IMAGES]
    calibration = fit_images(images[spread], source.input_shape)
    cut, usual = cut or DEFAULT_CUTS[network], usual_cuts(network)
    return compile_program(source.network, calibration, cut=cut, widths=widths, usual_cuts=usual), note
