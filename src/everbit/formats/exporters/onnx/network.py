"""A PyTorch network as an ONNX model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import torch
from onnx import TensorProto, checker, helper
from torch import fx, nn

from everbit import __version__
from everbit.compile.trace import trace
from everbit.errors import UnsupportedError
from everbit.formats.exporters.onnx.builder import GraphBuilder, Shape
from everbit.formats.exporters.onnx.rules import translate
from everbit.whole_file import replacing

OPSET, IR_VERSION = 17, 8
"""Of the operators and of the file: ONNX 1.12 and ONNX Runtime 1.12, of 2022, read them."""

INPUT, BATCH = "image", "N"
EXAMPLES = 2
"""Images that shapes are found with: two, so that what mixes the images of a batch shows."""


def onnx_model(
    network: nn.Module,
    input_shape: tuple[int, int, int],
    output: str = "logits",
    facts: Mapping[str, str] | None = None,
) -> onnx.ModelProto:
    """The network as a checked ONNX model, in evaluation mode.

    input_shape: height, width, channels. The model's input `image` is float32 [N, channels, H, W], images/127.5 - 1;
    its output, named `output`, float32 [N, classes]. facts: metadata properties beside producer and version. Raises
    CompileError for a network that cannot be traced, UnsupportedError, naming the module, for a step without a rule.
    """
    graph = trace(network)
    height, width, channels = input_shape
    build = GraphBuilder(graph, _shapes(graph, (EXAMPLES, channels, height, width)))
    result = _translate_all(build)
    names = [INPUT, output]
    build.nodes.append(helper.make_node("Identity", [build.values[result]], [output], name=output))
    described = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [BATCH, *shape[1:]])
        for name, shape in zip(names, ((EXAMPLES, channels, height, width), build.shapes[result]), strict=True)
    ]
    made = helper.make_graph(build.nodes, "network", described[:1], described[1:], list(build.constants.values()))
    model = helper.make_model(
        made,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="everbit",
        producer_version=__version__,
    )
    properties = {"producer": "everbit", "version": __version__, "input": "images / 127.5 - 1, [N, channels, H, W]"}
    helper.set_model_props(model, properties | dict(facts or {}))
    checker.check_model(model, full_check=True)
    return model


def save_onnx(model: onnx.ModelProto, path: Path) -> None:
    """Writes a model, whole or not at all: the same bytes for the same model. Raises OutputError."""
    with replacing(path) as partial:
        partial.write_bytes(model.SerializeToString(deterministic=True))


class _Shapes(fx.Interpreter):
    """Runs a traced network and notes the shape of every activation."""

    def __init__(self, graph: fx.GraphModule) -> None:
        super().__init__(graph)
        self.shapes: dict[fx.Node, Shape] = {}

    def run_node(self, n: fx.Node) -> Any:
        made = super().run_node(n)
        if isinstance(made, torch.Tensor):
            self.shapes[n] = tuple(made.shape)
        return made


def _shapes(graph: fx.GraphModule, shape: Shape) -> dict[fx.Node, Shape]:
    """Shapes of all activations. Raises UnsupportedError where the network does not run on such images."""
    interpreter = _Shapes(graph)
    try:
        with torch.no_grad():
            interpreter.run(torch.zeros(shape))
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise UnsupportedError(f"the network does not run on images {list(shape)}: {reason}") from error
    return interpreter.shapes


def _translate_all(build: GraphBuilder) -> fx.Node:
    """Translates all nodes in order; returns the one whose value is the network's result."""
    result: object = None
    for node in build.graph.graph.nodes:
        if node.op == "placeholder":
            build.values[node] = INPUT
        elif node.op == "output":
            result = node.args[0]
        elif node in build.shapes:  # sizes, which only a reshape reads, are known
            translate(build, node)
    if not isinstance(result, fx.Node) or len(build.shapes.get(result, ())) != 2:
        raise UnsupportedError("the network returns no row of values [N, F] for each image: return the logits alone")
    return result
