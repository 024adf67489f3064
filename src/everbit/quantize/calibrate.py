"""Calibration: what the compiler measures on the images the user names (docs/method.md 1.2).

The frozen part runs in float; at the cut every activation passes through the latent's own quantization, and behind it
the batch norms' statistics are estimated anew, once, then frozen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, fx, nn

from everbit.errors import CompileError
from everbit.quantize.float_run import FloatRun, float_runs
from everbit.quantize.ranges import EXTREMES, RANGES, Histogram, Range
from everbit.quantize.scale import Floats


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

    extremes: least and greatest of a node's values. ranges: what its integers shall stand for. shapes: of one image's
    values. statistics: mean and variance by channel of learnable batch norms. own_statistics: whether these keep the
    function that they have nevertheless.
    """

    extremes: dict[fx.Node, Range] = field(default_factory=dict)
    ranges: dict[fx.Node, Range] = field(default_factory=dict)
    shapes: dict[fx.Node, tuple[int, ...]] = field(default_factory=dict)
    statistics: dict[fx.Node, tuple[Floats, Floats]] = field(default_factory=dict)
    own_statistics: bool = False
    latent: Latent | None = None
    features: Floats | None = None

    def see(self, node: fx.Node, value: Tensor) -> None:
        """Widens a node's extremes by a batch of its values."""
        low, high = (float(end) for end in torch.aminmax(value))
        before = self.extremes.get(node, (low, high))
        self.extremes[node] = (min(before[0], low), max(before[1], high))
        self.shapes[node] = tuple(value.shape[1:])

    def copy(self, own_statistics: bool) -> Calibration:
        """What was measured so far, to be gone on with."""
        return Calibration(dict(self.extremes), dict(self.ranges), dict(self.shapes), own_statistics=own_statistics)


class _LearnableRun(FloatRun):
    """Runs what stands behind the cut and records the statistics of its batch norms, those of all images.

    own_statistics: they nevertheless normalize by the statistics that they have.
    """

    def __init__(
        self, graph: fx.GraphModule, calibration: Calibration, learnable: set[fx.Node], own_statistics: bool
    ) -> None:
        super().__init__(graph)
        self.calibration = calibration
        self.learnable = learnable
        self.own_statistics = own_statistics

    def run_node(self, n: fx.Node) -> object:
        module = self.module.get_submodule(str(n.target)) if n.op == "call_module" else None
        value: object = None
        if n in self.learnable and isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            value = self._normalised(n, module, self.env[cast(fx.Node, n.args[0])])
        return super().run_node(n) if value is None or self.own_statistics else value

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


@dataclass(frozen=True)
class Method:
    """How a network is calibrated. ranges: a key of RANGES. bits: of activations, which the ranges are for."""

    ranges: str
    bits: int


@torch.no_grad()
def calibrate_frozen(
    graph: fx.GraphModule, frozen: Sequence[fx.Node], images: NDArray[np.uint8], method: Method
) -> tuple[Calibration, Tensor]:
    """Runs the images, uint8 [N, H, W, C], up to the cut; returns what was measured and the values there.

    frozen: the image and the nodes behind it, the cut last.
    """
    result = Calibration()
    at_cut = []
    for run in float_runs(graph, images):
        result.see(frozen[0], run.env[frozen[0]])
        run.steps(frozen[1:], result.see)
        at_cut.append(run.env[frozen[-1]])
    _choose_ranges(graph, result, images, frozen[1:], method)
    values = torch.cat(at_cut)
    if values.ndim not in (2, 4):
        raise CompileError(
            f"the output of {frozen[-1].name} is neither a map nor a row of channels: cut at an earlier module"
        )
    return result, values


@torch.no_grad()
def calibrate_learnable(
    graph: fx.GraphModule,
    frozen: tuple[Calibration, Tensor],
    at: CutPoint,
    features: fx.Node,
    method: Method,
    latent_bits: int,
    own_statistics: bool,
) -> Calibration:
    """Adds what stands behind the cut, up to `features`, as it sees a latent of so many bits.

    frozen: what `calibrate_frozen` returned; it stays as it is. own_statistics: learnable batch norms keep the
    statistics that they have.
    """
    before, values = frozen
    result = before.copy(own_statistics)
    shape, values = values.shape, values.view(*values.shape[:2], *(values.shape[2:] or (1, 1)))
    unit = torch.ones(1) if at.unit is None else torch.from_numpy(at.unit).to(values.dtype).view(1, -1, 1, 1)
    result.latent, seen = calibrate_latent(values / unit, latent_bits, at.threshold, at.limits)
    order = list(graph.graph.nodes)
    behind = order[order.index(at.node) + 1 : order.index(features) + 1]
    run = _LearnableRun(graph, result, set(behind), own_statistics)
    run.env[at.node] = (seen * unit).view(shape)
    if behind:
        run.steps(behind, lambda node, value: _see_whole(result, node, value, method))
    result.features = run.env[features].flatten(1).double().numpy()
    return result


def _see_whole(result: Calibration, node: fx.Node, value: Tensor, method: Method) -> None:
    """Extremes and range of all of a node's values at once."""
    result.see(node, value)
    histogram = Histogram.over(*result.extremes[node])
    if method.ranges != EXTREMES:
        histogram.add(value.numpy())
    result.ranges[node] = RANGES[method.ranges](histogram, method.bits)


def _choose_ranges(
    graph: fx.GraphModule, result: Calibration, images: NDArray[np.uint8], frozen: Sequence[fx.Node], method: Method
) -> None:
    """The ranges of frozen nodes, by a second run of the images where the extremes do not say them."""
    histograms = {node: Histogram.over(*extremes) for node, extremes in result.extremes.items()}
    for run in float_runs(graph, images) if method.ranges != EXTREMES else ():
        run.steps(frozen, lambda node, value: histograms[node].add(value.numpy()))
    for node, histogram in histograms.items():
        result.ranges[node] = RANGES[method.ranges](histogram, method.bits)
