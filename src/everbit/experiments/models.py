"""Where an experiment's program comes from: a compiled file, or a network of the zoo compiled for each stream."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from everbit.compile.program import Program
from everbit.errors import ConfigurationError, FormatError
from everbit.formats.model_file import program_from_bytes
from everbit.quantize.widths import Widths
from everbit.zoo.cuts import DEFAULT_CUTS, image_shape, usual_cuts

if TYPE_CHECKING:
    from torch import nn

    from everbit.compile.cut_network import CutNetwork

CALIBRATION_IMAGES = 1024
"""Most images a program is calibrated on."""


class ModelSource(Protocol):
    """Gives the program that a stream is learned with."""

    @property
    def digest(self) -> str:
        """Changes with anything that changes the program."""

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """Height, width, channels of the images it takes."""

    def program(self, images: NDArray[np.uint8]) -> Program:
        """The program, calibrated where it is not yet on images uint8 [N, H, W, C] of the first experience."""


class CompiledModel:
    """An .everbit file, used as it is, but for classes that it knows: a stream brings its own."""

    def __init__(self, path: Path) -> None:
        content = _read(path)
        self.digest = hashlib.sha256(content).hexdigest()
        program = program_from_bytes(content, str(path))
        self._program = replace(program, head=replace(program.head, classifier=None))
        self.input_shape = self._program.input_shape

    def program(self, images: NDArray[np.uint8]) -> Program:
        return self._program


@dataclass(frozen=True)
class FrozenPart:
    """What stands before a cut, by all that decides it, so that programs of several latents may share it.

    name: of the network. digest: of the weights and the cut. images: a digest of `calibration`, uint8 [N, H, W, C].
    """

    name: str
    digest: str
    q_f: int
    images: str
    network: nn.Module = field(compare=False)
    cut: str = field(compare=False)
    calibration: NDArray[np.uint8] = field(compare=False)


@lru_cache(maxsize=1)
def cut_network(part: FrozenPart) -> CutNetwork:
    """The network cut in two. The frozen part takes nearly all of a compilation; runs that follow one another share it.

    Raises as `everbit.compile.compiler.compile_program`.
    """
    from everbit.compile.cut_network import CutNetwork

    usual = usual_cuts(part.name)
    return CutNetwork(part.network, part.calibration, cut=part.cut, q_f=part.q_f, usual_cuts=usual)


@dataclass(frozen=True)
class ZooModel:
    """A pretrained network of the zoo, compiled for the first experience of each stream (docs/method.md 1.5)."""

    name: str
    network: nn.Module
    digest: str
    cut: str
    widths: Widths
    input_shape: tuple[int, int, int]

    def program(self, images: NDArray[np.uint8]) -> Program:
        pixels = np.ascontiguousarray(images[:CALIBRATION_IMAGES])
        digest = hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).hexdigest()
        part = FrozenPart(self.name, self.digest, self.widths.q_f, digest, self.network, self.cut, pixels)
        return cut_network(part).program(self.widths)


def model_source(
    model: str,
    widths: Widths,
    *,
    cut: str | None = None,
    width: float = 0.5,
    image_size: int | None = None,
    weights: Path | None = None,
) -> ModelSource:
    """The source of a model: the path of an .everbit file, or a network of the zoo by its name.

    widths, cut, width, image_size, weights: of a network of the zoo; image_size: pixels a side, those that its stem is
    made for without it; weights is a backbone file, without it the package's is taken. Raises ConfigurationError for an
    unknown model or options that do not fit it, FormatError for a bad file.
    """
    if model in DEFAULT_CUTS:
        return _zoo_model(model, widths, cut or DEFAULT_CUTS[model], width, image_size, weights)
    if not Path(model).is_file():
        names = ", ".join(DEFAULT_CUTS)
        raise ConfigurationError(f"unknown model {model!r}: give the path of an .everbit file, or one of {names}")
    if (cut, image_size, weights) != (None, None, None):
        raise ConfigurationError(
            f"{model} is compiled, with its weights, cut and image size: leave --cut, --image-size and --weights out"
        )
    return CompiledModel(Path(model))


def _zoo_model(
    name: str, widths: Widths, cut: str, width: float, image_size: int | None, weights: Path | None
) -> ZooModel:
    from everbit.zoo.weights import load_weights, packaged_weights, read_description

    path = weights or packaged_weights(name)
    description, _ = read_description(path)
    if (description.architecture, description.width) != (name, width):
        raise ConfigurationError(
            f"{path} holds {description.architecture} at width {description.width:g}, not {name} at {width:g}: "
            "give other --weights, or the --model and --width of these"
        )
    digest = hashlib.sha256(_read(path) + cut.encode()).hexdigest()
    shape = image_shape(name, description.stem, image_size)
    return ZooModel(name, load_weights(path), digest, cut, widths, shape)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FormatError(f"cannot read {path} ({error.strerror}): check the path") from error
