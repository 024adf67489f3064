"""One frozen part for programs of several latents: each is the one that is compiled alone."""

from __future__ import annotations

from typing import Any

import pytest

from compile.test_compiler import images, trained_statistics
from everbit.compile.compiler import compile_program
from everbit.compile.cut_network import CutNetwork
from everbit.formats.model_file import program_bytes
from everbit.quantize.widths import Widths
from everbit.zoo.registry import build

PLACES = [("mobilenet_v2", "block14"), ("reactnet18", "stage3.block1"), ("vgg_small", "block5.conv")]


@pytest.mark.parametrize(("name", "cut"), PLACES)
@pytest.mark.parametrize("q_f", [8, 16])
def test_programs_of_one_cut_are_those_compiled_alone(name: str, cut: str, q_f: int) -> None:
    network = trained_statistics(build(name, width=0.0625))
    pixels = images(12)
    shared = CutNetwork(network, pixels, cut=cut, q_f=q_f)
    cases: list[tuple[int, dict[str, Any]]] = [(8, {}), (1, {}), (6, {}), (8, {"keep_classifier": True}), (8, {})]
    for latent, options in cases:
        widths = Widths(q_f, 8, 16, latent)
        alone = compile_program(network, pixels, cut=cut, widths=widths, **options)
        assert program_bytes(shared.program(widths, **options)) == program_bytes(alone)
