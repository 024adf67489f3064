"""What integers cost a network, layer by layer: the engine's values against those of the float network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import fx, nn

from everbit import engine
from everbit.compile.clamps import clamp_bounds
from everbit.compile.classifier import NetworkHead
from everbit.compile.image import program_image
from everbit.compile.lowering import ByChannel, Lowering
from everbit.compile.program import Layer, Program
from everbit.quantize.float_run import FloatRun, float_runs

_BATCH = 4  # images whose values are all kept at once

Values = dict[fx.Node, torch.Tensor]


@dataclass(frozen=True)
class Compilation:
    """A program, and how it came about. frozen: nodes of the frozen part, the image first, the cut last."""

    network: nn.Module
    lowering: Lowering
    frozen: Sequence[fx.Node]
    head: NetworkHead
    program: Program


@dataclass(frozen=True)
class LayerCost:
    """A frozen layer on the engine.

    name: its module's path. shape: height, width, channels. low, high: ends of what its integers stand for, over all
    channels. decibels: 10 log10 of the float values' energy over that of the difference; infinite where there is none.
    same_class: share of the images that the float network gives the same class if everything up to this layer is the
    engine's, None for a network without classes.
    """

    name: str
    kind: str
    shape: tuple[int, int, int]
    bits: int
    low: float
    high: float
    decibels: float
    same_class: float | None


@dataclass(frozen=True)
class CostReport:
    """layers: in order. same_class: of the whole program, where it keeps the network's classes. images: how many."""

    layers: list[LayerCost]
    same_class: float | None
    images: int


@torch.no_grad()
def cost_report(compilation: Compilation, images: NDArray[np.uint8]) -> CostReport:
    """Runs images, uint8 [N, H, W, C], on the engine and in float, and compares."""
    places, runner = _places(compilation), _Engine(compilation)
    energy, error = dict.fromkeys(places, 0.0), dict.fromkeys(places, 0.0)
    same, whole = dict.fromkeys(places, 0), 0
    classifier = compilation.program.head.classifier
    has_classes = compilation.head.linear is not None or classifier is not None
    order = list(compilation.lowering.graph.graph.nodes)

    for run in float_runs(compilation.lowering.graph, images, _BATCH):
        pixels = run.env[order[0]]
        classes = compilation.network(pixels).flatten(1).argmax(dim=1) if has_classes else None
        integers, logits = runner.run(pixels, places)

        def compare(node: fx.Node, value: torch.Tensor, integers: Values = integers) -> None:
            if node in places:
                energy[node] += float(value.double().square().sum())
                error[node] += float((value.double() - integers[node]).square().sum())

        run.steps(list(compilation.frozen)[1:], compare)
        if classes is None:
            continue
        for node in places:
            same[node] += int((_rest(compilation, order, integers, node).argmax(dim=1) == classes).sum())
        whole += int((logits.argmax(dim=1) == classes).sum())

    layers = [
        _cost(compilation, node, layer, energy[node], error[node], same[node] / len(images) if has_classes else None)
        for node, layer in places.items()
    ]
    return CostReport(layers, None if classifier is None else whole / len(images), len(images))


def _places(compilation: Compilation) -> dict[fx.Node, Layer]:
    """Frozen nodes whose values the engine has, and the layers that make them.

    Where one tensor is the value of several, such as a batch norm and the ReLU behind it, that is the last of them.
    """
    low, program = compilation.lowering, compilation.program
    makers = {layer.output: layer for layer in program.layers[: program.latent_index]}
    last: dict[int, fx.Node] = {}
    for node in compilation.frozen[1:]:
        index = _tensor_of(compilation, node)
        # Of steps that only signs read, a clamp is left out.
        left_out = node in low.stands_for and clamp_bounds(low.graph, node) is not None
        if index in makers and not (left_out and index in last):
            tensor = program.tensors[index]
            if low.shape(node) == (tensor.height, tensor.width, tensor.channels):
                last[index] = node
    return {node: makers[index] for index, node in sorted(last.items()) if makers[index].kind != "input"}


def _tensor_of(compilation: Compilation, node: fx.Node) -> int:
    """Index of a frozen node's tensor, in front of the latent; -1 without one."""
    program = compilation.program
    index = compilation.lowering.tensor.get(node, -1)
    latent = program.layers[program.latent_index]
    return latent.inputs[0] if index == latent.output else index


def _stands_for(compilation: Compilation, node: fx.Node) -> ByChannel:
    """Factor and offset by channel of a node's integers."""
    known = compilation.lowering.stands_for.get(node)
    if known is not None:
        return known
    tensor = compilation.program.tensors[_tensor_of(compilation, node)]
    factor = np.full(tensor.channels, tensor.scale)
    return ByChannel(factor, -factor * tensor.zero_point)


class _Engine:
    """The engine with all its values in sight."""

    def __init__(self, compilation: Compilation) -> None:
        program = compilation.program
        classes = max(1, len(program.head.labels))
        widths = {"q_bin": 8, "q_nonbin": max(16, program.q_f)}
        options = widths | {"classes": classes, "cwr": True, "learning_rates": [(0, 0)] * 5}
        self._compilation = compilation
        self._network = engine.Network(program_image(program), 1, options)

    def run(self, pixels: torch.Tensor, nodes: Sequence[fx.Node] | dict[fx.Node, Layer]) -> tuple[Values, torch.Tensor]:
        """Values of nodes, [N, ...], and logits [N, classes]; pixels: the network's input."""
        values: dict[fx.Node, list[torch.Tensor]] = {node: [] for node in nodes}
        logits = []
        images = ((pixels + 1) * 127.5).round().byte().permute(0, 2, 3, 1).contiguous().numpy()
        for image in images:
            self._network.forward(self._network.encode(image[np.newaxis]))
            logits.append(torch.from_numpy(self._network.logits(False)[0].astype(np.int64)))
            for node in nodes:
                values[node].append(self._value(node))
        return {node: torch.stack(parts) for node, parts in values.items()}, torch.stack(logits)

    def _value(self, node: fx.Node) -> torch.Tensor:
        """[C, H, W], or [C] for a row."""
        index = _tensor_of(self._compilation, node)
        tensor, stands_for = self._compilation.program.tensors[index], _stands_for(self._compilation, node)
        raw = self._network.activation(index, 1)
        if tensor.bits == 1:
            words = np.frombuffer(raw, np.uint8).reshape(tensor.height, tensor.width, -1)
            bits = np.unpackbits(words, axis=2, bitorder="little", count=tensor.channels)
            whole = bits.astype(np.float64) * 2 - 1
        else:
            shape = (tensor.height, tensor.width, tensor.channels)
            whole = np.frombuffer(raw, f"<i{tensor.bits // 8}").astype(np.float64).reshape(shape)
        real = torch.from_numpy(whole * stands_for.factor + stands_for.offset).float().permute(2, 0, 1)
        return real.reshape(self._compilation.lowering.calibration.shapes[node])


def _rest(compilation: Compilation, order: list[fx.Node], integers: Values, last: fx.Node) -> torch.Tensor:
    """Outputs, [N, classes], of the float network from the engine's values up to the node `last` on."""
    place = {node: number for number, node in enumerate(order)}
    known = {node: value for node, value in integers.items() if place[node] <= place[last]}
    output = order[-1].all_input_nodes[0]
    needed, stack = set(), [output]
    while stack:
        node = stack.pop()
        if node not in needed and node not in known:
            needed.add(node)
            stack += node.all_input_nodes
    run = FloatRun(compilation.lowering.graph)
    run.env = dict(known)
    run.steps([node for node in order if node in needed], lambda node, value: None)
    result: torch.Tensor = run.env[output]
    return result.flatten(1)


def _cost(
    compilation: Compilation, node: fx.Node, layer: Layer, energy: float, error: float, same_class: float | None
) -> LayerCost:
    tensor, stands_for = compilation.program.tensors[layer.output], _stands_for(compilation, node)
    end = 2 ** (tensor.bits - 1)
    ends = np.array([[-1], [1]] if tensor.bits == 1 else [[-end], [end - 1]]) * stands_for.factor + stands_for.offset
    decibels = 10 * math.log10(energy / error) if error and energy else math.inf if not error else -math.inf
    shape = (tensor.height, tensor.width, tensor.channels)
    return LayerCost(
        layer.name, layer.kind, shape, tensor.bits, float(ends.min()), float(ends.max()), decibels, same_class
    )
