"""Like ranges for the channels of a tensor: factors that one layer takes in and the next gives back.

A tensor has one scale, so that a channel of small values gets few of its steps. Where what makes a channel and what
reads it have weights of their own for it, the channel can be made larger without a change of the network (Nagel et al.,
Data-free quantization, ICCV 2019). Sums tie the channels of their inputs and their output together. What a ReLU6 bounds
stays as it is: its bound would have to move with the channel.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, fx, nn

from everbit.quantize.float_run import float_runs

BALANCE = 0.75
"""How far channels are made alike: 1 all the way, 0 not at all. Weights that read them become the less alike."""

MOST = 32.0
"""No channel counts as smaller than the largest by more: a nearly dead one would only amplify its rounding."""

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
_LAYERS = (nn.Conv2d, nn.Linear)
_KEEP = (nn.Identity, nn.Dropout, nn.Dropout2d, nn.ReLU, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d)


@dataclass
class Tie:
    """Tensors whose channels take one factor each.

    makers, readers: modules that give the factors and take them back. free: whether nothing else makes or reads them.
    """

    nodes: list[fx.Node] = field(default_factory=list)
    makers: list[nn.Module] = field(default_factory=list)
    readers: list[nn.Module] = field(default_factory=list)
    free: bool = True


class _Ties:
    """The ties of a graph, by node."""

    def __init__(self) -> None:
        self._of: dict[fx.Node, Tie] = {}

    def of(self, node: fx.Node) -> Tie:
        if node not in self._of:
            self._of[node] = Tie([node])
        return self._of[node]

    def join(self, first: fx.Node, second: fx.Node) -> None:
        into, other = self.of(first), self.of(second)
        if into is other:
            return
        for name in ("nodes", "makers", "readers"):
            getattr(into, name).extend(getattr(other, name))
        into.free = into.free and other.free
        self._of.update(dict.fromkeys(other.nodes, into))

    def all(self) -> list[Tie]:
        return list({id(tie): tie for tie in self._of.values()}.values())


def find_ties(graph: fx.GraphModule, frozen: Iterable[fx.Node]) -> list[Tie]:
    """Ties among the outputs of frozen nodes that can be equalized."""
    inside, ties = list(frozen), _Ties()
    modules = {node: graph.get_submodule(str(node.target)) for node in inside if node.op == "call_module"}
    called: list[nn.Module | None] = list(modules.values())
    for node in inside:
        module = modules.get(node)
        ties.of(node).free &= set(node.users) <= set(inside) and called.count(module) <= 1
        _RULES.get(type(module) if module is not None else node.target, _other)(ties, node, module)
    return [tie for tie in ties.all() if tie.free and tie.makers and tie.readers]


def _other(ties: _Ties, node: fx.Node, module: nn.Module | None) -> None:
    for tied in (node, *node.all_input_nodes):
        ties.of(tied).free = False


def _kept(ties: _Ties, node: fx.Node, module: nn.Module | None) -> None:
    for source in node.all_input_nodes:
        ties.join(node, source)


def _norm(ties: _Ties, node: fx.Node, module: nn.Module | None) -> None:
    assert isinstance(module, _NORMS)
    ties.of(node.all_input_nodes[0]).free = False
    ties.of(node).makers.append(module)
    ties.of(node).free &= module.affine


def _layer(ties: _Ties, node: fx.Node, module: nn.Module | None) -> None:
    assert isinstance(module, _LAYERS)
    ties.of(node.all_input_nodes[0]).readers.append(module)
    ties.of(node).makers.append(module)


_RULES: dict[object, Callable[[_Ties, fx.Node, nn.Module | None], None]] = {
    operator.add: _kept,
    **dict.fromkeys(_KEEP, _kept),
    **dict.fromkeys(_NORMS, _norm),
    **dict.fromkeys(_LAYERS, _layer),
}


@torch.no_grad()
def equalize(graph: fx.GraphModule, images: NDArray[np.uint8], frozen: Sequence[fx.Node]) -> None:
    """Changes weights in front of the cut so that channels have more alike ranges on images, uint8 [N, H, W, C].

    frozen: nodes of the frozen part behind the image, in order.
    """
    ties = find_ties(graph, frozen)
    nodes = {node for tie in ties for node in tie.nodes}
    sizes: dict[fx.Node, Tensor] = {}

    def see(node: fx.Node, value: Tensor) -> None:
        if node in nodes:
            size = value.abs().transpose(0, 1).flatten(1).amax(dim=1)
            sizes[node] = torch.maximum(sizes[node], size) if node in sizes else size

    for run in float_runs(graph, images) if ties else ():
        run.steps(frozen, see)
    for tie in ties:
        size = torch.stack([sizes[node] for node in tie.nodes]).amax(dim=0).clamp(min=1e-12)
        factors = (size.max() / size).clamp(max=MOST) ** BALANCE
        for module in tie.makers:
            _scale_outputs(module, factors)
        for module in tie.readers:
            _scale_inputs(module, 1 / factors)


def _scale_outputs(module: nn.Module, factors: Tensor) -> None:
    weight, bias = module.weight, module.bias
    assert isinstance(weight, Tensor)
    weight.mul_(factors.view(-1, *[1] * (weight.dim() - 1)))
    if isinstance(bias, Tensor):
        bias.mul_(factors)


def _scale_inputs(module: nn.Module, factors: Tensor) -> None:
    weight, groups = module.weight, getattr(module, "groups", 1)
    assert isinstance(weight, Tensor)
    of_output = factors.view(groups, -1).repeat_interleave(len(weight) // groups, dim=0)
    weight.mul_(of_output.view(*weight.shape[:2], *[1] * (weight.dim() - 2)))
