"""Channels whose rounding costs most are computed several times, each time a fraction of a step apart.

In front of a depthwise convolution a channel may hold small differences on a large mean: 8 bits of its range are then
too few, and the filter amplifies their rounding. k copies of it, k-th parts of a step apart, round differently; the
layer behind the depthwise one takes their mean, which is as if steps were k times finer (after Zhao et al., Improving
neural network quantization without retraining using outlier channel splitting, ICML 2019).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, fx, nn

from everbit.nn.windows import SamePad2d
from everbit.quantize.float_run import float_runs

SHARE = 0.02
"""A channel's share of all noise in front of depthwise convolutions that is worth a copy."""

COPIES = 8
"""Most of a channel; and channels are added in eights, which kernels like."""

IMAGES = 32
"""Images that say what rounding costs."""

_STEPS = 255
_CLAMPS = (nn.ReLU, nn.ReLU6)
_KINDS = (nn.Conv2d, nn.BatchNorm2d, _CLAMPS, nn.Conv2d, nn.BatchNorm2d, _CLAMPS, nn.Conv2d)


@dataclass(frozen=True)
class _Chain:
    """Convolution, batch norm, clamp, depthwise convolution, batch norm, clamp, convolution. middle: first clamp."""

    middle: fx.Node
    conv: nn.Conv2d
    norm: nn.BatchNorm2d
    depthwise: nn.Conv2d
    depthwise_norm: nn.BatchNorm2d
    reader: nn.Conv2d


def split_channels(graph: fx.GraphModule, images: NDArray[np.uint8], frozen: Sequence[fx.Node]) -> None:
    """Adds channels to frozen layers of a graph; images: uint8 [N, H, W, C]. Its outputs stay what they are.

    frozen: nodes of the frozen part behind the image, in order.
    """
    chains = [chain for node in frozen if (chain := _chain(graph, node, set(frozen))) is not None]
    if not chains:
        return
    noise, largest = _noise(graph, images, [chain.middle for chain in chains])
    total = sum(float(of.sum()) for of in noise.values())
    for chain in chains:
        copies = _copies(noise[chain.middle] / total if total else noise[chain.middle])
        if copies.max() > 1:
            _split(chain, copies, largest[chain.middle] / _STEPS)


def _chain(graph: fx.GraphModule, first: fx.Node, frozen: set[fx.Node]) -> _Chain | None:
    """The chain that begins at a node, None where none does."""
    nodes: list[fx.Node] = []
    modules: list[Any] = []
    way = _way(graph, first)
    for kind in _KINDS:
        node = next(way, None)
        module = None if node is None else _module(graph, node)
        if node is None or node not in frozen or not isinstance(module, kind):
            return None
        nodes.append(node)
        modules.append(module)
    conv, norm, _, depthwise, depthwise_norm, _, reader = modules
    channels = conv.out_channels
    fits = conv.groups == reader.groups == 1 and depthwise.groups == depthwise.out_channels == channels
    known = all(of.affine and of.track_running_stats for of in (norm, depthwise_norm))
    targets = [str(node.target) for node in graph.graph.nodes]
    once = all(targets.count(str(node.target)) == 1 for node in nodes)
    return _Chain(nodes[2], conv, norm, depthwise, depthwise_norm, reader) if fits and known and once else None


def _way(graph: fx.GraphModule, node: fx.Node) -> Iterator[fx.Node]:
    """A node and those behind it, as long as one alone reads another; steps that keep channels apart are left out."""
    yield node
    while len(node.users) == 1:
        node = next(iter(node.users))
        if not isinstance(_module(graph, node), (nn.Identity, SamePad2d)):
            yield node


def _module(graph: fx.GraphModule, node: fx.Node) -> nn.Module | None:
    return graph.get_submodule(str(node.target)) if node.op == "call_module" else None


def _noise(
    graph: fx.GraphModule, images: NDArray[np.uint8], nodes: Sequence[fx.Node]
) -> tuple[dict[fx.Node, NDArray[np.float64]], dict[fx.Node, float]]:
    """What rounding each channel of nodes adds to the energy of the network's outputs; and the nodes' largest values.

    Outputs weighed by random numbers have a gradient whose square is on the average that energy for noise of 1.
    """
    generator = torch.Generator().manual_seed(0)
    squares: dict[fx.Node, Tensor] = {}
    largest = dict.fromkeys(nodes, 0.0)
    graph.requires_grad_(False)
    order = list(graph.graph.nodes)
    for run in float_runs(graph, images[:: -(-len(images) // IMAGES)], 4):
        seen: dict[fx.Node, Tensor] = {}

        def see(node: fx.Node, value: Tensor, seen: dict[fx.Node, Tensor] = seen) -> None:
            if node in largest:
                seen[node] = value.requires_grad_() if value.is_leaf else value
                largest[node] = max(largest[node], float(value.detach().max()))

        with torch.enable_grad():
            run.steps(order[1:-1], see)
            output = run.env[order[-1].all_input_nodes[0]]
            weighed = torch.sum(output * torch.randn(output.shape, generator=generator))
            gradients = torch.autograd.grad(weighed, list(seen.values()))
        for node, gradient in zip(seen, gradients, strict=True):
            squares[node] = squares.get(node, torch.zeros(())) + gradient.double().square().sum(dim=(0, 2, 3))
    return {node: (squares[node] * (largest[node] / _STEPS) ** 2).numpy() for node in nodes}, largest


def _copies(shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """How often each channel is computed: the costliest gets one more, until none is worth it."""
    copies = np.ones(len(shares), np.int64)
    while True:
        left = np.where(copies < COPIES, shares / copies**2, 0.0)
        if not left.any() or (left.max() <= SHARE and copies.sum() % 8 == len(shares) % 8):
            return copies
        copies[left.argmax()] += 1


@torch.no_grad()
def _split(chain: _Chain, copies: NDArray[np.int64], step: float) -> None:
    source = torch.from_numpy(np.repeat(np.arange(len(copies)), copies))
    place = np.concatenate([(np.arange(k) - (k - 1) / 2) / k for k in copies])
    offset = torch.from_numpy(place * step).float()
    _take_outputs(chain.conv, source)
    _take_outputs(chain.norm, source)
    chain.norm.bias.add_(offset)
    _take_outputs(chain.depthwise, source)
    chain.depthwise.in_channels = chain.depthwise.groups = len(source)
    _take_outputs(chain.depthwise_norm, source)
    assert chain.depthwise_norm.running_mean is not None
    chain.depthwise_norm.running_mean.add_(offset * chain.depthwise.weight.sum(dim=(1, 2, 3)))
    share = 1 / torch.from_numpy(copies).float()
    chain.reader.weight = nn.Parameter((chain.reader.weight * share[:, None, None])[:, source], requires_grad=False)
    chain.reader.in_channels = len(source)


def _take_outputs(module: nn.Conv2d | nn.BatchNorm2d, source: Tensor) -> None:
    """Outputs `source` of a layer, in this order."""
    for name, parameter in list(module.named_parameters(recurse=False)):
        setattr(module, name, nn.Parameter(parameter[source], requires_grad=False))
    if isinstance(module, nn.Conv2d):
        module.out_channels = len(source)
        return
    module.num_features = len(source)
    for name in ("running_mean", "running_var"):
        setattr(module, name, getattr(module, name)[source])
