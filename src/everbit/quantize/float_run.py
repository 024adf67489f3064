"""A network's graph on images, in float, one step after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, fx

_BATCH, _PIXELS = 64, 2**19  # most images at once, and most of their pixels


class FloatRun(fx.Interpreter):
    """Runs nodes from a graph's image on; a value is forgotten once no node needs it any more."""

    def __init__(self, graph: fx.GraphModule) -> None:
        super().__init__(graph, garbage_collect_values=False)

    def steps(self, nodes: Sequence[fx.Node], see: Callable[[fx.Node, Tensor], None]) -> None:
        """Runs nodes in order, shows their values, and keeps that of the last alone."""
        place = {node: number for number, node in enumerate(nodes)}
        last_use: dict[int, list[fx.Node]] = {}
        for node in [*self.env, *nodes[:-1]]:
            last_use.setdefault(max((place.get(user, -1) for user in node.users), default=-1), []).append(node)
        for number, node in enumerate(nodes):
            value = self.run_node(node)
            self.env[node] = value
            if isinstance(value, Tensor) and node.op != "output":
                see(node, value)
            for used in last_use.get(number, []):
                self.env.pop(used, None)


def float_runs(graph: fx.GraphModule, images: NDArray[np.uint8], most: int = _BATCH) -> Iterator[FloatRun]:
    """A run for each batch of at most `most` images, uint8 [N, H, W, C], that holds its input."""
    placeholder = next(iter(graph.graph.nodes))
    size = max(1, min(most, _PIXELS // (images.shape[1] * images.shape[2])))
    for first in range(0, len(images), size):
        pixels = torch.from_numpy(np.ascontiguousarray(images[first : first + size])).permute(0, 3, 1, 2)
        run = FloatRun(graph)
        run.env[placeholder] = pixels.float() / 127.5 - 1
        yield run
