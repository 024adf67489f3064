"""Modules that clamp: ReLU, ReLU6, hardtanh."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import fx, nn

Bounds = tuple[float, float]

CLAMP_MODULES: dict[type[nn.Module], Callable[[nn.Module], Bounds]] = {
    nn.ReLU: lambda module: (0.0, math.inf),
    nn.ReLU6: lambda module: (0.0, 6.0),
    nn.Hardtanh: lambda module: (float(module.min_val), float(module.max_val)),  # type: ignore[arg-type]
}


def clamp_bounds(graph: fx.GraphModule, node: fx.Node) -> Bounds | None:
    """The real bounds of a node that clamps, None for any other."""
    if node.op != "call_module":
        return None
    module = graph.get_submodule(str(node.target))
    bounds = CLAMP_MODULES.get(type(module))
    return None if bounds is None else bounds(module)
