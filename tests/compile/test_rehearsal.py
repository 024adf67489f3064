"""Frozen 8-bit layers on the images they were fitted to: what layers before got wrong is made up on the average."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from compile.test_networks import images, trained
from everbit.compile import cut_network
from everbit.compile.clamps import clamp_bounds
from everbit.compile.compiler import compile_program
from everbit.compile.report import Compilation
from everbit.quantize.float_run import float_runs
from everbit.quantize.widths import Widths
from reference.network import ReferenceNetwork


def mean_errors(name: str, cut: str, kind: type[nn.Module]) -> list[np.ndarray]:
    """Of frozen layers behind whose output of module `kind` no clamp stands: error of each channel's mean, in steps."""
    found: list[Compilation] = []
    pixels = images(48, 7)
    compile_program(trained(name), pixels, cut=f"body.{cut}", widths=Widths(8, 16, 16, 8), examine=found.append)
    low, program = found[0].lowering, found[0].program
    activations = ReferenceNetwork(program, 16, 16).frozen_activations(pixels)
    means: dict[object, torch.Tensor] = {}
    with torch.no_grad():
        for run in float_runs(low.graph, pixels):
            run.steps(list(found[0].frozen)[1:], lambda node, value: means.update({node: value.double()}))
    latent, errors = program.layers[program.latent_index], []
    convolutions = {layer.output for layer in program.layers if layer.kind == "convolution"}
    for node in found[0].frozen[1:]:
        index = latent.inputs[0] if low.tensor.get(node) == latent.output else low.tensor.get(node)
        clamped = any(clamp_bounds(low.graph, user) is not None for user in node.users)
        if isinstance(low.module(node), kind) and index in convolutions and not clamped:
            tensor = program.tensors[index]
            real = (activations[index] - tensor.zero_point).mean(axis=(0, 1, 2))
            errors.append(real - (means[node].mean(dim=(0, 2, 3)) / tensor.scale).numpy())
    return errors


@pytest.mark.parametrize(("name", "cut"), [("mobilenet", "2"), ("quicknet", "2")])
def test_means_are_those_of_the_float_network(name: str, cut: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind signs that rounding has turned, too: QuickNet's transition stands behind a binary block."""
    fitted = mean_errors(name, cut, nn.BatchNorm2d)
    monkeypatch.setattr(cut_network, "Rehearsal", lambda *_: None)
    nearest = mean_errors(name, cut, nn.BatchNorm2d)
    assert len(fitted) == len(nearest) >= 2
    sizes = [np.sqrt(np.mean(np.concatenate(errors) ** 2)) for errors in (fitted, nearest)]
    assert sizes[0] < 0.12
    assert sizes[0] < 0.5 * sizes[1]
