"""Where branches meet: sums and concatenations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from torch import fx

from everbit.compile.lowering import Lowering
from everbit.compile.program import Tensor
from everbit.compile.trace import module_path
from everbit.quantize.scale import wide_factor


def add(low: Lowering, node: fx.Node) -> None:
    """A shortcut meets its branch."""
    low.tensor[node] = sum_of(low, node, low.read(node, 0)[0], low.read(node, 1)[0], low.activation(node))


def sum_of(low: Lowering, node: fx.Node, first: int, second: int, target: Tensor) -> int:
    """The layer `add` on two tensors; returns its output's index."""
    a, b = low.builder.tensors[first], low.builder.tensors[second]
    factors = np.array([a.scale, b.scale]) / target.scale
    wide = 32 in (a.bits, b.bits, target.bits)
    most, most_shift = (2**30 - 1, 61) if wide else (2**13 - 1, 29)
    shift = int(np.clip(np.floor(np.log2(most / factors.max())), 0, most_shift))
    A0, A1 = (int(v) for v in np.round(factors * 2.0**shift))
    # A wide sum takes the zero points off by itself.
    offset = 0 if wide else -(A0 * a.zero_point + A1 * b.zero_point)
    attributes = {"A0": A0, "A1": A1, "B": offset, "s": shift}
    return low.builder.add("add", module_path(node), (first, second), target, attributes=attributes)


def concat(low: Lowering, node: fx.Node) -> None:
    """Channels side by side, two tensors at a time; all take the numbers of the whole."""
    parts, dim = node.args[0], node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else 0)
    sources = [part for part in parts if isinstance(part, fx.Node)] if isinstance(parts, (list, tuple)) else []
    if dim not in (1, -3) or len(sources) < 2:
        raise low.error(node, "joins along something other than channels", "use torch.cat([...], dim=1) of two or more")
    whole = low.activation(node)
    index, tensor = low.read_from(node, sources[0])
    for source in sources[1:]:
        other_index, other = low.read_from(node, source)
        attributes: dict[str, int] = {}
        for k, part in enumerate((tensor, other)):
            attributes[f"A{k}"], attributes[f"s{k}"] = wide_factor(part.scale / whole.scale, 2**30 - 1)
        target = replace(whole, channels=tensor.channels + other.channels)
        index = low.builder.add("concat", module_path(node), (index, other_index), target, attributes=attributes)
        tensor = target
    low.tensor[node] = index
