"""Steps without weights: signs, clamps, rounding, sums, and changes of shape."""

from __future__ import annotations

import math

from torch import fx

from everbit.compile.clamps import clamp_bounds
from everbit.formats.exporters.onnx.builder import GraphBuilder
from everbit.nn.quantize import FloorQuantize


def same(build: GraphBuilder, node: fx.Node) -> None:
    """Steps that change nothing when a network runs."""
    build.values[node] = build.read(node)


def sign(build: GraphBuilder, node: fx.Node) -> None:
    """+1 where x >= 0, also for -0.0, else -1. ONNX's own Sign gives 0 for 0, which would make a third value."""
    fires = build.step(node, "GreaterOrEqual", [build.read(node), build.scalar(0.0)], "fires")
    build.values[node] = build.step(node, "Where", [fires, build.scalar(1.0), build.scalar(-1.0)])


def clamp(build: GraphBuilder, node: fx.Node) -> None:
    """ReLU, ReLU6, hardtanh."""
    bounds = clamp_bounds(build.graph, node)
    assert bounds is not None
    if bounds == (0.0, math.inf):
        build.values[node] = build.step(node, "Relu", [build.read(node)])
        return
    low, high = (build.scalar(bound) for bound in bounds)
    build.values[node] = build.step(node, "Clip", [build.read(node), low, high])


def floor_quantize(build: GraphBuilder, node: fx.Node) -> None:
    """The next number below with some bits behind the point."""
    module = build.module(node)
    assert isinstance(module, FloorQuantize)
    scaled = build.step(node, "Mul", [build.read(node), build.scalar(2.0**module.bits)], "scaled")
    below = build.step(node, "Floor", [scaled], "below")
    build.values[node] = build.step(node, "Mul", [below, build.scalar(2.0**-module.bits)])


def add(build: GraphBuilder, node: fx.Node) -> None:
    """The sum of two activations."""
    if node.kwargs:
        raise build.error(node, f"adds with {', '.join(node.kwargs)}")
    build.values[node] = build.step(node, "Add", [build.read(node, 0), build.read(node, 1)])


def concat(build: GraphBuilder, node: fx.Node) -> None:
    """Activations side by side."""
    parts, axis = node.args[0], _argument(node, 1, "dim", 0)
    sources = [part for part in parts if isinstance(part, fx.Node)] if isinstance(parts, (list, tuple)) else []
    if not sources or any(source not in build.values for source in sources):
        raise build.error(node, "joins what are no activations")
    if not isinstance(axis, int) or axis % len(build.shapes[node]) == 0:
        raise build.error(node, "joins along the batch")
    build.values[node] = build.step(node, "Concat", [build.values[source] for source in sources], axis=axis)


def reshape(build: GraphBuilder, node: fx.Node) -> None:
    """Flatten, view and reshape that leave every image to itself."""
    before, after = build.input_shape(node), build.shapes[node]
    if before[0] != after[0]:
        raise build.error(node, "changes the batch")
    if len(after) == 2:
        build.values[node] = build.step(node, "Flatten", [build.read(node)], axis=1)
        return
    # A 0 keeps the size of the batch, whatever it is.
    shape = build.integers(node, "shape", [0, *after[1:]])
    build.values[node] = build.step(node, "Reshape", [build.read(node), shape])


def mean(build: GraphBuilder, node: fx.Node) -> None:
    """Mean over axes of each image."""
    given = _argument(node, 1, "dim", None)
    axes = list(given) if isinstance(given, (list, tuple)) else [given]
    rank = len(build.input_shape(node))
    if not all(isinstance(axis, int) and axis % rank != 0 for axis in axes):
        raise build.error(node, "takes the mean over the batch")
    keep = int(bool(_argument(node, 2, "keepdim", False)))
    build.values[node] = build.step(node, "ReduceMean", [build.read(node)], axes=axes, keepdims=keep)


def _argument(node: fx.Node, position: int, name: str, default: object) -> object:
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)
