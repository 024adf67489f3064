"""Calibration: what the compiler measures on the images the user names (docs/method.md 1.2).

The frozen part runs in float; at the cut every activation passes through the latent's own quantization, and behind it
the batch norms' statistics are estimated anew, once, then frozen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, fx, nn

from everbit.errors import CompileError
from everbit.quantize.scale import Floats

_BATCH = 64


@dataclass(frozen=True)
class Latent:
    """Numbers of the cut.

    bits = 1: threshold, low and high by channel; else codes stand for evenly spaced values in [start, end].
    """

    bits: int
    threshold: Floats
    low: Floats
    high: Floats
    start: float
    end: float

    @property
    def step(self) -> float:
        """Distance of two neighbouring codes."""
        return (self.end - self.start) / (2**self.bits - 1) or 1.0


@dataclass(frozen=True)
class CutPoint:
    """Where a network is cut.

    threshold: of the sign that reads the value there, by channel, or None where no sign does. unit: by channel, where
    the value is a binary convolution's sum, the real value of one; codes then stand for the integers. limits: the range
    of the value where it is known beforehand. signs: whether the value is +-1.
    """

    node: fx.Node
    threshold: Floats | None = None
    unit: Floats | None = None
    limits: tuple[float, float] | None = None
    signs: bool = False


@dataclass
class Calibration:
    """What was measured, by graph node.

    ranges: of a node's values. shapes: of one image's values. statistics: mean and variance by channel of learnable
    batch norms.
    """

    ranges: dict[fx.Node, tuple[float, float]] = field(default_factory=dict)
    shapes: dict[fx.Node, tuple[int, ...]] = field(default_factory=dict)
    statistics: dict[fx.Node, tuple[Floats, Floats]] = field(default_factory=dict)
    own_statistics: bool = False
    latent: Latent | None = None
    features: Floats | None = None

    def see(self, node: fx.Node, value: Tensor) -> None:
        """Widens a node's range by a batch of its values."""
        low, high = float(value.min()), float(value.max())
        before = self.ranges.get(node, (low, high))
        self.ranges[node] = (min(before[0], low), max(before[1], high))
        self.shapes[node] = tuple(value.shape[1:])


class _Run(fx.Interpreter):
    """Runs nodes and records what it sees, the statistics of learnable batch norms among it.

    own_statistics: batch norms normalize by the statistics that they have, else learnable ones by those of the batch.
    """

    def __init__(
        self, graph: fx.GraphModule, calibration: Calibration, learnable: set[fx.Node], own_statistics: bool
    ) -> None:
        super().__init__(graph, garbage_collect_values=False)
        self.calibration = calibration
        self.learnable = learnable
        self.own_statistics = own_statistics

    def run_node(self, n: fx.Node) -> object:
        module = self.module.get_submodule(str(n.target)) if n.op == "call_module" else None
        value: object = None
        if n in self.learnable and isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            value = self._normalised(n, module, self.env[cast(fx.Node, n.args[0])])
        if value is None or self.own_statistics:
            value = super().run_node(n)
        if isinstance(value, Tensor) and n.op != "output":
            self.calibration.see(n, value)
        return value

    def _normalised(self, n: fx.Node, module: nn.BatchNorm1d | nn.BatchNorm2d, x: Tensor) -> Tensor:
        axes = [axis for axis in range(x.dim()) if axis != 1]
        mean = x.mean(dim=axes)
        variance = x.var(dim=axes, unbiased=False)
        self.calibration.statistics[n] = (mean.double().numpy(), variance.double().numpy())
        return nn.functional.batch_norm(x, mean, variance, module.weight, module.bias, False, 0.0, module.eps)


def _one_bit(values: Tensor, threshold: Tensor) -> tuple[Tensor, Tensor]:
    """Means by channel of the values below and above the threshold; the threshold itself where there are none."""
    above = values >= threshold.view(1, -1, 1, 1)
    count = above.sum(dim=(0, 2, 3))
    total = values.numel() // values.shape[1]
    high = torch.where(count > 0, (values * above).sum(dim=(0, 2, 3)) / count.clamp(min=1), threshold)
    low = torch.where(count < total, (values * ~above).sum(dim=(0, 2, 3)) / (total - count).clamp(min=1), threshold)
    return low, high


def _best_range(values: Tensor, bits: int) -> tuple[float, float]:
    """Ends of the evenly spaced codes that rebuild the values with the least mean squared error."""
    low, high = float(values.min()), float(values.max())
    centre = float(values.mean())
    levels = 2**bits - 1
    best = (float("inf"), low, high)
    for shrink in np.linspace(0.15, 1.0, 18) if bits < 8 else [1.0]:
        start, end = centre + (low - centre) * shrink, centre + (high - centre) * shrink
        step = (end - start) / levels or 1.0
        rebuilt = ((values - start) / step).round().clamp(0, levels) * step + start
        best = min(best, (float((rebuilt - values).square().mean()), start, end))
    return best[1], best[2]


def calibrate_latent(
    values: Tensor, bits: int, threshold: Floats | None, limits: tuple[float, float] | None = None
) -> tuple[Latent, Tensor]:
    """The latent's numbers and the values as the learnable part will see them.

    values: [N, C, H, W] at the cut. threshold: of the sign that reads them, by channel, or None where no sign does;
    then it is the channel's mean (docs/method.md 1.4). limits: ends of the codes' range, None for the best ones.
    """
    chosen = values.mean(dim=(0, 2, 3)) if threshold is None else torch.from_numpy(threshold).to(values.dtype)
    low, high = _one_bit(values, chosen)
    start, end = limits or (_best_range(values, bits) if bits > 1 else (0.0, 0.0))
    latent = Latent(bits, chosen.double().numpy(), low.double().numpy(), high.double().numpy(), start, end)
    if bits == 1:
        by = [t.view(1, -1, 1, 1) for t in (chosen, low, high)]
        return latent, torch.where(values >= by[0], by[2], by[1])
    return latent, ((values - start) / latent.step).round().clamp(0, 2**bits - 1) * latent.step + start


@torch.no_grad()
def calibrate(
    graph: fx.GraphModule,
    at: CutPoint,
    features: fx.Node,
    images: NDArray[np.uint8],
    bits: int,
    learnable: set[fx.Node],
    own_statistics: bool = False,
) -> Calibration:
    """Runs the images, uint8 [N, H, W, C], through the graph up to `features` and measures what the compiler needs.

    own_statistics: learnable batch norms keep the statistics that they have.
    """
    result = Calibration(own_statistics=own_statistics)
    order, cut = list(graph.graph.nodes), at.node
    placeholder = order[0]
    frozen = order[1 : order.index(cut) + 1]
    at_cut = []
    for first in range(0, len(images), _BATCH):
        pixels = torch.from_numpy(np.ascontiguousarray(images[first : first + _BATCH])).permute(0, 3, 1, 2)
        run = _Run(graph, result, set(), True)
        run.env[placeholder] = pixels.float() / 127.5 - 1
        result.see(placeholder, run.env[placeholder])
        for node in frozen:
            if node not in learnable:
                run.env[node] = run.run_node(node)
        at_cut.append(run.env[cut])
    values = torch.cat(at_cut)
    if values.ndim not in (2, 4):
        raise CompileError(f"the output of {cut.name} is neither a map nor a row of channels: cut at an earlier module")
    shape, values = values.shape, values.view(*values.shape[:2], *(values.shape[2:] or (1, 1)))
    unit = torch.ones(1) if at.unit is None else torch.from_numpy(at.unit).to(values.dtype).view(1, -1, 1, 1)
    result.latent, seen = calibrate_latent(values / unit, bits, at.threshold, at.limits)
    run = _Run(graph, result, learnable, own_statistics)
    run.env[cut] = (seen * unit).view(shape)
    for node in order[order.index(cut) + 1 : order.index(features) + 1]:
        run.env[node] = run.run_node(node)
    result.features = run.env[features].flatten(1).double().numpy()
    return result
