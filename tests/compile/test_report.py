"""The report on a program: what the engine gives, held against the float network and the integer reference."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from compile.networks import NETWORKS
from compile.test_networks import as_input, images, trained
from everbit.compile.compiler import compile_program
from everbit.compile.report import Compilation, CostReport, cost_report
from everbit.quantize.widths import Widths
from reference.network import ReferenceNetwork


def examined(name: str, cut: str, q_f: int = 8, keep: bool = True) -> tuple[Compilation, CostReport]:
    found: list[Compilation] = []
    widths = Widths(q_f, 16, max(q_f, 16), 8)
    compile_program(
        trained(name), images(32, 7), cut=f"body.{cut}", widths=widths, keep_classifier=keep, examine=found.append
    )
    return found[0], cost_report(found[0], images(6, 11))


@pytest.mark.parametrize(("name", "cut"), [(name, cuts[-1]) for name, (_, cuts) in NETWORKS.items()])
def test_every_value_that_the_engine_makes_is_a_row(name: str, cut: str) -> None:
    compilation, report = examined(name, cut)
    program = compilation.program
    frozen = program.layers[1 : program.latent_index]
    named = [(layer.name, layer.kind) for layer in report.layers]
    assert set(named) <= {(layer.name, layer.kind) for layer in frozen}
    joins = sum(layer.kind == "concat" for layer in frozen)  # one of three parts takes two layers
    assert len(named) >= len(frozen) - joins // 2
    assert report.layers[0].decibels > 25, "the first layer reads exact images"
    for layer in report.layers:
        assert layer.low < layer.high
        assert layer.same_class is not None
        assert 0 <= layer.same_class <= 1


def test_decibels_are_those_of_the_reference() -> None:
    compilation, report = examined("mobilenet", "2")
    program, pixels = compilation.program, images(6, 11)
    activations = ReferenceNetwork(program, 16, 16).frozen_activations(pixels)
    layer = next(layer for layer in program.layers if layer.name == "body.0.1")
    tensor = program.tensors[layer.output]
    found = ((activations[layer.output] - tensor.zero_point) * tensor.scale).transpose(0, 3, 1, 2)
    with torch.no_grad():
        expected = trained("mobilenet").body[0](as_input(pixels)).double().numpy()
    decibels = 10 * np.log10((expected**2).sum() / ((expected - found) ** 2).sum())
    row = next(row for row in report.layers if row.name == "body.0.1")
    assert row.decibels == pytest.approx(decibels, abs=0.01)
    assert row.shape == (tensor.height, tensor.width, tensor.channels)
    assert row.high == pytest.approx((127 - tensor.zero_point) * tensor.scale)


def test_finer_activations_cost_less() -> None:
    """16 bits cost what lies beyond the range that calibration saw, 8 bits their steps too."""
    coarse, fine = (examined("mobilenet", "2", q_f)[1] for q_f in (8, 16))
    assert fine.layers[-1].decibels > coarse.layers[-1].decibels + 10
    assert fine.layers[-1].same_class == fine.same_class == 1


def test_the_last_layer_decides_as_the_whole_program_does() -> None:
    """Where nothing but a pool and the head stand behind the cut, both tell the same classes."""
    _, report = examined("mobilenet", "3")
    assert report.images == 6
    assert report.same_class == pytest.approx(report.layers[-1].same_class, abs=1 / 6)


def test_without_the_classes_the_whole_has_none() -> None:
    _, report = examined("dense", "1", keep=False)
    assert report.same_class is None
    assert all(layer.same_class is not None for layer in report.layers), "the float network has them nevertheless"
