"""The programs that a plan compares: one for each place where a network may be cut and each width of its latents.

Memory and operations do not depend on weights, so a network of the zoo gets random ones and two images of noise to
calibrate on; what the compiler adds to suit the weights (channels of MobileNets that it splits) may differ a little.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from everbit.compile.program import Program
from everbit.errors import CompileError, ConfigurationError
from everbit.formats.model_file import load_program
from everbit.quantize.widths import Widths
from everbit.zoo.cuts import NETWORKS, WHOLE_NETWORK, Shape, usual_cuts
from everbit.zoo.packaged import packaged_model, packaged_names

if TYPE_CHECKING:
    from torch import nn

EVERY_CUT = "all"
BINARY_WIDTHS = ("8,1,16,1", "8,8,16,1", "8,16,16,1", "8,16,16,8")
OTHER_WIDTHS = ("8,1,16,1", "8,1,16,4", "8,1,16,7", "8,1,16,8")
"""Widths that are planned for unless others are asked for: of networks with binary layers, and of ordinary ones."""

IMAGES = 2


@dataclass(frozen=True)
class Candidate:
    """A program at one cut, and the widths that a learner would run it at."""

    cut: str
    widths: Widths
    program: Program


@dataclass(frozen=True)
class Plannable:
    """A network, or a program that is compiled already, with the images it takes."""

    name: str
    facts: dict[str, str]
    shape: Shape
    network: nn.Module | None
    program: Program | None

    def candidates(self, cuts: Sequence[str], widths: Sequence[Widths]) -> Iterator[Candidate]:
        """Every program to plan for; no cuts or widths: the usual ones.

        Combinations that cannot be compiled are left out unless nothing is left, then CompileError is raised.
        """
        if self.program is not None:
            yield from self._compiled(self.program, cuts, widths)
            return
        problem: CompileError | None = None
        found = False
        for cut in self._cuts(cuts):
            compiled: dict[tuple[int, int], Program] = {}
            for chosen in widths or self._widths():
                key = chosen.q_f, chosen.latent
                try:
                    if key not in compiled:
                        compiled[key] = self._compile(cut, chosen)
                except CompileError as error:
                    problem = error
                    continue
                found = True
                yield Candidate(cut, chosen, compiled[key])
        if not found and problem is not None:
            raise problem

    def _compiled(self, program: Program, cuts: Sequence[str], widths: Sequence[Widths]) -> Iterator[Candidate]:
        from everbit.learner.settings import program_widths

        if cuts:
            raise ConfigurationError(f"{self.name} is compiled, with its cut: leave --cut out")
        cut = program.layers[program.latent_index].name
        usual = [
            Widths(program.q_f, q_bin, max(16, program.q_f), program.latent_bits)
            for q_bin in ((1, 8, 16) if _has_binary(program) else (1,))
        ]
        for chosen in widths or usual:
            yield Candidate(cut, program_widths(program.q_f, program.latent_bits, chosen), program)

    def _cuts(self, cuts: Sequence[str]) -> Sequence[str]:
        if EVERY_CUT in cuts:
            return _possible_cuts(self._network())
        if cuts:
            return cuts
        return self._usual_cuts() or _possible_cuts(self._network())

    def _usual_cuts(self) -> tuple[str, ...]:
        return usual_cuts(self.facts.get("network"))

    def _widths(self) -> list[Widths]:
        from everbit.nn.binary import BinaryWeight

        binary = any(isinstance(module, BinaryWeight) for module in self._network().modules())
        return [Widths.parse(text) for text in (BINARY_WIDTHS if binary else OTHER_WIDTHS)]

    def _compile(self, cut: str, widths: Widths) -> Program:
        from everbit.compile.compiler import compile_program

        images = np.random.default_rng(0).integers(0, 256, (IMAGES, *self.shape), np.uint8)
        return compile_program(self._network(), images, cut=cut, widths=widths, usual_cuts=self._usual_cuts())

    def _network(self) -> nn.Module:
        assert self.network is not None
        return self.network


def plannable(
    model: str, width: float | None = None, stem: str | None = None, image_size: int | None = None
) -> Plannable:
    """What a name of the zoo, the name of a packaged .everbit file, or a path stands for.

    width, stem: of a network of the zoo. image_size: pixels of a side, where the network is not compiled. Raises
    ConfigurationError for an unknown name or options that do not fit.
    """
    if model in NETWORKS:
        return _network(model, width, stem, image_size)
    path = Path(model)
    compiled = path.suffix == ".everbit"
    if not path.is_file() and compiled and path.stem in packaged_names():
        path = packaged_model(path.stem)
    if not path.is_file():
        names = ", ".join(NETWORKS)
        raise ConfigurationError(f"unknown model {model!r}: give the path of a file, or one of {names}")
    if (width, stem) != (None, None):
        raise ConfigurationError(f"{model} is a file with its own width and stem: leave these options out")
    if not compiled:
        return _file(path, image_size)
    if image_size is not None:
        raise ConfigurationError(f"{model} is compiled for its images: leave --image-size out")
    program = load_program(path)
    return Plannable(path.stem, {"weights": path.name}, program.input_shape, None, program)


def _network(name: str, width: float | None, stem: str | None, image_size: int | None) -> Plannable:
    from everbit.formats.exporters.source import network_of_the_zoo

    source = network_of_the_zoo(name, 1.0 if width is None else width, None, stem, 0)
    return Plannable(name, source.facts, _resized(source.input_shape, image_size), source.network, None)


def _file(path: Path, image_size: int | None) -> Plannable:
    from everbit.formats.exporters.source import network_of_a_file

    source = network_of_a_file(path)
    return Plannable(path.stem, source.facts, _resized(source.input_shape, image_size), source.network.eval(), None)


def _resized(shape: Shape, image_size: int | None) -> Shape:
    return shape if image_size is None else (image_size, image_size, shape[2])


def _has_binary(program: Program) -> bool:
    return any(layer.kind == "binary_convolution" for layer in program.layers[program.latent_index :])


def _possible_cuts(network: nn.Module) -> list[str]:
    """Modules of the network's first two levels behind which one activation carries everything, in order."""
    from everbit.compile.classifier import network_head
    from everbit.compile.cut import check_cut, find_cut
    from everbit.compile.trace import trace

    graph = trace(network)
    features = network_head(graph).features
    order = {node: position for position, node in enumerate(graph.graph.nodes)}
    found: dict[object, str] = {}
    for name, _ in network.named_modules():
        if not name or name.count(".") > 1:
            continue
        try:
            at = find_cut(graph, name)
            check_cut(graph, at, features, name)
        except CompileError:
            continue
        if order[at] <= order[features]:
            found.setdefault(at, name)
    cuts = [found[at] for at in sorted(found, key=lambda node: order[node])]
    return [WHOLE_NETWORK, *cuts]
