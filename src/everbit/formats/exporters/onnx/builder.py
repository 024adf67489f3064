"""Collects the nodes and constants of an ONNX graph while a traced network is translated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from torch import Tensor, fx, nn

from everbit.compile.trace import module_path
from everbit.errors import UnsupportedError

Array = NDArray[np.generic]
Shape = tuple[int, ...]


class GraphBuilder:
    """The ONNX graph so far.

    graph: the traced network. shapes: by node that makes a tensor, its shape for a few images. values: by node that was
    translated, the name of its value. nodes, constants: of the ONNX graph, in order.
    """

    def __init__(self, graph: fx.GraphModule, shapes: dict[fx.Node, Shape]) -> None:
        self.graph, self.shapes = graph, shapes
        self.values: dict[fx.Node, str] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def module(self, node: fx.Node) -> nn.Module | None:
        """The module a call_module node calls; None for other nodes."""
        return self.graph.get_submodule(str(node.target)) if node.op == "call_module" else None

    def source(self, node: fx.Node, position: int = 0) -> fx.Node:
        """The node that makes an input."""
        argument = node.args[position] if position < len(node.args) else None
        if not isinstance(argument, fx.Node) or argument not in self.values:
            raise self.error(node, f"reads no activation as its input {position}")
        return argument

    def read(self, node: fx.Node, position: int = 0) -> str:
        """The name of an input's value."""
        return self.values[self.source(node, position)]

    def input_shape(self, node: fx.Node, position: int = 0) -> Shape:
        """The shape of an input for a few images."""
        return self.shapes[self.source(node, position)]

    def step(self, node: fx.Node, kind: str, inputs: Sequence[str], part: str = "", **attributes: Any) -> str:
        """Appends an ONNX operator; returns the name of its value. part: what it is for, where a node takes several."""
        name = f"{node.name}/{part}" if part else node.name
        # No node of a traced network has such a name, so that the input's and the output's are free.
        value = f"{name}:0"
        self.nodes.append(helper.make_node(kind, list(inputs), [value], name=name, **attributes))
        return value

    def weight(self, node: fx.Node, part: str, values: Tensor) -> str:
        """A constant of a node's module, in the dtype it has, once for all nodes that call it; returns its name."""
        return self.shared(f"{module_path(node)}.{part}", values.detach().cpu().numpy())

    def integers(self, node: fx.Node, part: str, values: Sequence[int]) -> str:
        """A constant of a node alone, int64; returns its name."""
        return self.shared(f"{node.name}/{part}", np.array(values, np.int64))

    def scalar(self, value: float) -> str:
        """A float constant that many nodes read; returns its name."""
        return self.shared(f"constant {value!r}", np.array(value, np.float32))

    def shared(self, name: str, values: Array) -> str:
        """A constant that all nodes read which ask for that name; returns the name."""
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(values), name)
        return name

    def error(self, node: fx.Node, why: str) -> UnsupportedError:
        """An error that names the module."""
        return UnsupportedError(f"{module_path(node)}: {why}; docs/export.md lists what can be exported")
