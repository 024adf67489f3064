"""Steps of a torch graph that clamp: ReLU, ReLU6, hardtanh."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import fx, nn
from torch.nn import functional

Bounds = tuple[float, float]

_RELU: Bounds = (0.0, math.inf)
_RELU6: Bounds = (0.0, 6.0)

CLAMP_MODULES: dict[type[nn.Module], Callable[[nn.Module], Bounds]] = {
    nn.ReLU: lambda module: _RELU,
    nn.ReLU6: lambda module: _RELU6,
    nn.Hardtanh: lambda module: (float(module.min_val), float(module.max_val)),  # type: ignore[arg-type]
}
CLAMP_FUNCTIONS: dict[object, Bounds] = {torch.relu: _RELU, functional.relu: _RELU, functional.relu6: _RELU6}
CLAMP_METHODS: dict[str, Bounds] = {"relu": _RELU}


def clamp_bounds(graph: fx.GraphModule, node: fx.Node) -> Bounds | None:
    """The real bounds of a node that clamps, None for any other."""
    if node.op == "call_module":
        module = graph.get_submodule(str(node.target))
        bounds = CLAMP_MODULES.get(type(module))
        return None if bounds is None else bounds(module)
    if node.op == "call_method":
        return CLAMP_METHODS.get(str(node.target))
    return CLAMP_FUNCTIONS.get(node.target) if node.op == "call_function" else None
