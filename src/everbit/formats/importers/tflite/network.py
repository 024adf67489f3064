"""A `.tflite` file as a PyTorch network of torch's and everbit's layers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import fx, nn

from everbit.errors import FormatError, UnsupportedError
from everbit.formats.importers.network import MOST_PIXELS, ImportedNetwork
from everbit.formats.importers.tflite import binary, layers, steps
from everbit.formats.importers.tflite.builder import GraphBuilder
from everbit.formats.importers.tflite.file import Operator, read_tflite
from everbit.formats.importers.tflite.values import Layout, Value

Rule = Callable[[GraphBuilder, Operator], Value | None]

RULES: dict[str, Rule] = {
    "LceQuantize": binary.quantize,
    "LceDequantize": binary.dequantize,
    "LceBconv2d": binary.convolution,
    "LceBMaxPool2d": binary.max_pool,
    "CONV_2D": layers.convolution,
    "DEPTHWISE_CONV_2D": layers.depthwise_convolution,
    "FULLY_CONNECTED": layers.fully_connected,
    "MAX_POOL_2D": layers.max_pool,
    "AVERAGE_POOL_2D": layers.average_pool,
    "MEAN": layers.mean,
    "ADD": steps.arithmetic,
    "SUB": steps.arithmetic,
    "MUL": steps.arithmetic,
    "RELU": steps.activation(nn.ReLU),
    "RELU6": steps.activation(nn.ReLU6),
    "RELU_N1_TO_1": steps.activation(nn.Hardtanh),
    "PRELU": steps.prelu,
    "PAD": steps.pad,
    "PADV2": steps.pad,
    "CONCATENATION": steps.concatenation,
    "RESHAPE": steps.reshape,
    "SQUEEZE": steps.reshape,
    "TRANSPOSE": steps.transpose,
    "QUANTIZE": steps.passed,
    "DEQUANTIZE": steps.dequantize,
    "SOFTMAX": steps.softmax,
}
"""The rule of each operator that can be imported."""


def load_tflite(path: Path) -> ImportedNetwork:
    """The network of a file; its modules are named after the file's operators, such as `bconv_4` for operator 4.

    Raises FormatError where the file is damaged, UnsupportedError naming an operator that everbit lacks.
    """
    file = read_tflite(path)
    build = GraphBuilder(path, file)
    if len(file.inputs) != 1 or len(file.outputs) != 1:
        counts = f"{len(file.inputs)} inputs and {len(file.outputs)} outputs"
        raise UnsupportedError(f"{path} has {counts}: convert a network that takes images and gives logits")
    shape = _input(build)
    for operator in file.operators:
        rule = RULES.get(operator.kind)
        if rule is None:
            raise build.unsupported(operator, "is no step that everbit has")
        if len(operator.outputs) != 1:
            raise build.damaged(operator, f"has {len(operator.outputs)} outputs")
        made = rule(build, operator)
        if made is not None:
            build.keep(operator, made)
    result = build.values.get(file.outputs[0])
    if result is None:
        raise FormatError(f"{path}: no operator makes its output: convert the network again")
    if result.height * result.width > 1 or result.from_map is not None or result.real is not None:
        raise UnsupportedError(f"{path} ends in a map or in signs: convert a network that gives logits")
    build.graph.output(steps.final(build, result))
    network = fx.GraphModule(build.root, build.graph, class_name="ImportedNetwork")
    network.graph.eliminate_dead_code()
    network.delete_all_unused_submodules()
    network.recompile()
    norms = tuple(str(node.target) for node in network.graph.nodes if node in build.norms)
    return ImportedNetwork(network.eval(), shape, result.channels, "tflite", folded_norms=norms)


def _input(build: GraphBuilder) -> tuple[int, int, int]:
    """Places the network's input; returns its height, width and channels."""
    index = build.file.inputs[0]
    tensor = build.file.tensors[index]
    turned = steps.is_turned(build, index)
    if len(tensor.shape) != 4 or tensor.data is not None or tensor.dtype not in ("float32", "int8", "uint8"):
        raise UnsupportedError(
            f"{build.path} takes {tensor.dtype} {list(tensor.shape)}, not images [1, H, W, channels]"
        )
    channels, height, width = tensor.shape[1:] if turned else (tensor.shape[3], *tensor.shape[1:3])
    if not (0 < height * width <= MOST_PIXELS and channels > 0):
        raise FormatError(f"{build.path} takes images of {height}x{width}x{channels}: convert it for smaller images")
    layout = Layout.CHANNELS_FIRST if turned else Layout.MAP
    build.values[index] = Value(build.graph.placeholder("images"), height, width, channels, layout)
    return height, width, channels
