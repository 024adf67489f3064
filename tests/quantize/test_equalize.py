"""Channels made alike, and channels computed several times: the network stays what it is."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from compile.test_compiler import images, trained_statistics
from everbit.compile.trace import trace
from everbit.quantize.equalize import equalize
from everbit.quantize.split import split_channels


class Residual(nn.Module):
    """A shortcut around two layers without activation behind the sum."""

    def __init__(self, clamp: type[nn.Module]) -> None:
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8)
        self.expand, self.expand_norm, self.clamp = nn.Conv2d(8, 16, 1), nn.BatchNorm2d(16), clamp()
        self.depthwise, self.depthwise_norm = nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.BatchNorm2d(16)
        self.clamp2 = clamp()
        self.project, self.project_norm = nn.Conv2d(16, 8, 1, bias=False), nn.BatchNorm2d(8)
        self.last, self.pool, self.flatten = nn.Conv2d(8, 12, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        self.head = nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first_norm(self.first(x))
        y = self.clamp(self.expand_norm(self.expand(x)))
        y = self.project_norm(self.project(self.clamp2(self.depthwise_norm(self.depthwise(y)))))
        return self.head(self.flatten(self.pool(self.last(x + y))))


def network(clamp: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    made = trained_statistics(Residual(clamp))
    with torch.no_grad():  # channels of very different sizes, and one filter that sees differences alone
        made.first_norm.weight *= torch.logspace(-2, 1, 8)
        made.project_norm.weight *= torch.logspace(-2, 1, 8)
        made.depthwise.weight[3] = torch.tensor([[[0.0, -30, 0], [-30, 120.5, -30], [0, -30, 0]]])
    return made


def outputs(graph: nn.Module) -> np.ndarray:
    with torch.no_grad():
        return graph(torch.from_numpy(images(8, 5)).permute(0, 3, 1, 2).float() / 127.5 - 1).numpy()


@pytest.mark.parametrize("clamp", [nn.ReLU, nn.ReLU6])
@pytest.mark.parametrize("change", [equalize, split_channels])
def test_the_network_stays_what_it_is(clamp: type[nn.Module], change: object) -> None:
    made = network(clamp)
    before, state = outputs(made), copy.deepcopy(made.state_dict())
    graph = copy.deepcopy(trace(made))
    nodes = list(graph.graph.nodes)
    change(graph, images(16), nodes[1:-1])
    np.testing.assert_allclose(outputs(graph), before, rtol=2e-4, atol=2e-4 * np.abs(before).max())
    assert any(
        value.shape != state[name].shape or not torch.equal(value, state[name])
        for name, value in graph.state_dict().items()
    )
    assert all(torch.equal(value, state[name]) for name, value in made.state_dict().items()), "the user's own"


def test_channels_of_a_sum_become_alike() -> None:
    graph = copy.deepcopy(trace(network(nn.ReLU6)))
    nodes = list(graph.graph.nodes)
    total = next(node for node in nodes if node.op == "call_function")

    def spread() -> float:
        from everbit.quantize.float_run import float_runs

        with torch.no_grad():
            run = next(iter(float_runs(graph, images(16))))
            run.steps(nodes[1 : nodes.index(total) + 1], lambda node, value: None)
            sizes = run.env[total].abs().amax(dim=(0, 2, 3))
        return float(sizes.max() / sizes.min())

    before = spread()
    equalize(graph, images(16), nodes[1:-1])
    assert spread() < 0.5 * before


def test_a_tensor_that_is_read_behind_the_cut_keeps_its_channels() -> None:
    made = network(nn.ReLU6)
    graph = copy.deepcopy(trace(made))
    nodes = list(graph.graph.nodes)
    cut = next(node for node in nodes if node.target == "clamp")
    frozen = nodes[1 : nodes.index(cut) + 1]
    equalize(graph, images(16), frozen)
    split_channels(graph, images(16), frozen)
    for name, value in made.state_dict().items():
        assert torch.equal(value, graph.state_dict()[name]), name


def test_the_filter_that_sees_differences_gets_copies() -> None:
    graph = copy.deepcopy(trace(network(nn.ReLU6)))
    nodes = list(graph.graph.nodes)
    split_channels(graph, images(16), nodes[1:-1])
    depthwise = graph.get_submodule("depthwise")
    assert depthwise.groups == depthwise.in_channels == len(depthwise.weight)
    assert depthwise.groups % 8 == 0
    copies = [i for i in range(depthwise.groups) if depthwise.weight[i, 0, 1, 1] == 120.5]
    assert 2 <= len(copies) <= 8
