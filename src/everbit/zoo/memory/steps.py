"""A network as the steps of its forward pass, with the sizes that memory depends on."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn

from everbit.compile.trace import trace
from everbit.nn.binary import BinaryWeight
from everbit.zoo.statistics import Shape


@dataclass(frozen=True)
class Step:
    """The image, one layer, or a function such as a sum (module None).

    channels, size: of one image's output; size is height and width. inputs: the steps that it reads, by number.
    """

    module: nn.Module | None
    channels: int
    size: tuple[int, int]
    inputs: tuple[int, ...]

    @property
    def places(self) -> int:
        """Height times width."""
        return self.size[0] * self.size[1]

    @property
    def elements(self) -> int:
        """Values of one image's output."""
        return self.channels * self.places

    @property
    def weights(self) -> int:
        """Weights of a convolution or a dense layer; 0 elsewhere."""
        weighted = isinstance(self.module, (BinaryWeight, nn.Conv2d, nn.Linear))
        return self.module.get_parameter("weight").numel() if weighted and self.module is not None else 0

    @property
    def binary(self) -> bool:
        """Whether its weights are of one bit."""
        return isinstance(self.module, BinaryWeight)


class _Recorder(fx.Interpreter):
    """Runs a graph without values and notes its steps."""

    def __init__(self, graph: fx.GraphModule) -> None:
        super().__init__(graph, garbage_collect_values=False)
        self.numbers: dict[fx.Node, int] = {}
        self.steps: list[Step] = []

    def run_node(self, n: fx.Node) -> object:
        value = super().run_node(n)
        if n.op in ("placeholder", "call_module", "call_function", "call_method") and isinstance(value, Tensor):
            module = self.module.get_submodule(str(n.target)) if n.op == "call_module" else None
            inputs = tuple(self.numbers[source] for source in n.all_input_nodes if source in self.numbers)
            self.numbers[n] = len(self.steps)
            height, width = (*value.shape[2:], 1, 1)[:2]
            self.steps.append(Step(module, value.shape[1], (height, width), inputs))
        return value


def steps_of(network: nn.Module, input_shape: Shape) -> list[Step]:
    """The steps in the order of running; the first is the image, of height, width and channels.

    Raises CompileError where the network cannot be traced.
    """
    height, width, channels = input_shape
    recorder = _Recorder(trace(copy.deepcopy(network).to("meta")))
    with torch.no_grad():
        recorder.run(torch.empty(1, channels, height, width, device="meta"))
    return recorder.steps
