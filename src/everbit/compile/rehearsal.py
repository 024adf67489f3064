"""The frozen part on calibration images while it is lowered: what its integers stand for, layer by layer.

The weights of a layer are rounded, and its bias corrected, by what the layer will really read. So it makes up for what
the layers before it got wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import fx, nn
from torch.nn import functional

from everbit.compile.program import Tensor
from everbit.quantize.float_run import float_runs
from everbit.quantize.rounding import Moments, rounded
from everbit.quantize.scale import Floats

IMAGES = 128
"""Most images of a rehearsal, spread over those given: their values are kept in memory."""

LARGEST = 127
"""Of a weight in steps."""

_STORED = {8: torch.int8, 16: torch.int16}


@dataclass(frozen=True)
class Layer:
    """A layer with real weights as it will be: its node, weights [out, in / groups, height, width] and biases."""

    node: fx.Node
    weight: torch.Tensor
    bias: torch.Tensor


class Rehearsal:
    """Values of the frozen nodes lowered so far that nodes to come read, in batches of images."""

    @torch.no_grad()
    def __init__(self, graph: fx.GraphModule, images: NDArray[np.uint8], frozen: list[fx.Node]) -> None:
        """images: uint8 [N, H, W, C]. frozen: the image, and the nodes of the frozen part behind it, in order."""
        self._graph = graph
        self._interpreter = fx.Interpreter(graph, garbage_collect_values=False)
        self._values: dict[fx.Node, list[torch.Tensor]] = {}
        self._numbers: dict[fx.Node, Tensor | None] = {}
        self._layers: dict[fx.Node, Layer] = {}
        self._done: set[fx.Node] = set()
        self._means: dict[fx.Node, torch.Tensor] = {}
        last = max((i for i, node in enumerate(frozen) if self._is_real(node)), default=-1)
        self._wanted = frozen[: last + 1]
        self._inputs = []
        # The float network's means are those of the same images.
        for run in float_runs(graph, images[:: -(-len(images) // IMAGES)]) if self._wanted else ():
            self._inputs.append(run.env[frozen[0]])
            run.steps(frozen[1:], self._see)

    def _is_real(self, node: fx.Node) -> bool:
        return node.op == "call_module" and isinstance(
            self._graph.get_submodule(str(node.target)), (nn.Conv2d, nn.Linear)
        )

    def _see(self, node: fx.Node, value: torch.Tensor) -> None:
        total = value.transpose(0, 1).flatten(1).double().mean(dim=1) * len(value)
        self._means[node] = self._means.get(node, torch.zeros(())) + total

    @torch.no_grad()
    def fit(self, node: fx.Node, output: fx.Node, weight: Floats, bias: Floats, step: Floats) -> tuple[Floats, Floats]:
        """Whole weights, and biases, of the layer of `node`, whose value is that of `output`.

        weight: in steps, [out, in / groups, height, width]. bias: real, [out]. step: of each output's weights.
        """
        if not self._is_real(node):
            return np.round(weight), bias
        module, source = self._graph.get_submodule(str(node.target)), node.all_input_nodes[0]
        inputs = self._all(source)
        moments = Moments.of(module, next(inputs))
        for x in inputs:
            moments += Moments.of(module, x)
        whole = rounded(weight.reshape(len(weight), -1), moments.covariance(), LARGEST).reshape(weight.shape)
        real = torch.from_numpy(whole * step[:, None, None, None]).float()
        layer = Layer(node, real, torch.zeros(len(bias)))
        count, total = 0, torch.zeros(len(bias), dtype=torch.float64)
        for x in self._all(source):
            total += self._apply(layer, x).transpose(0, 1).flatten(1).double().mean(dim=1) * len(x)
            count += len(x)
        corrected = (self._means[output] - total) / count
        self._layers[output] = Layer(node, real, corrected.float())
        fitted: Floats = corrected.numpy()
        return whole, fitted

    @torch.no_grad()
    def follow(self, node: fx.Node, numbers: Tensor | None, *, part: bool) -> None:
        """Takes over a node that was lowered; numbers: of its integers, None where they do not say its values.

        part: it becomes part of the node that reads it.
        """
        if node not in self._wanted or part:
            return
        self._numbers[node] = numbers
        self._values[node] = [self._stored(value, numbers) for value in self._of(node)]
        self._done.add(node)
        for source in node.all_input_nodes:
            if source not in self._values:
                self._done.add(source)
        for kept in list(self._values):
            if kept is not node and set(kept.users) <= self._done:
                del self._values[kept]

    def _of(self, node: fx.Node) -> Iterator[torch.Tensor]:
        layer = self._layers.get(node)
        if node.op == "placeholder":
            yield from self._inputs
        elif layer is not None:
            for x in self._all(layer.node.all_input_nodes[0]):
                yield self._apply(layer, x)
        else:
            for batch in range(len(self._inputs)):
                yield self._value(node, batch)

    def _all(self, node: fx.Node) -> Iterator[torch.Tensor]:
        for batch in range(len(self._inputs)):
            yield self._value(node, batch)

    def _value(self, node: fx.Node, batch: int) -> torch.Tensor:
        """A batch of a node's values: those kept, or what its module makes of them."""
        if node in self._values:
            value, numbers = self._values[node][batch], self._numbers[node]
            return value if numbers is None else (value.float() - numbers.zero_point) * numbers.scale
        self._interpreter.env = {source: self._value(source, batch) for source in node.all_input_nodes}
        made: torch.Tensor = self._interpreter.run_node(node)
        return made

    def _apply(self, layer: Layer, x: torch.Tensor) -> torch.Tensor:
        module = self._graph.get_submodule(str(layer.node.target))
        if isinstance(module, nn.Linear):
            return functional.linear(x, layer.weight[:, :, 0, 0], layer.bias)
        assert isinstance(module, nn.Conv2d)
        return functional.conv2d(
            x, layer.weight, layer.bias, module.stride, module.padding, module.dilation, module.groups
        )

    @staticmethod
    def _stored(value: torch.Tensor, numbers: Tensor | None) -> torch.Tensor:
        if numbers is None:
            return value
        if numbers.bits == 1:
            return value.to(torch.int8)
        end = 2 ** (numbers.bits - 1)
        whole = (value / numbers.scale + numbers.zero_point).round().clamp(-end, end - 1)
        return whole.to(_STORED[numbers.bits])
