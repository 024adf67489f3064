"""How far the integer rules may lie from the real ones: bounds derived from the rounding steps of docs/arithmetic.md.

Three facts give them all. A rounding shift is off by half a unit of its result. `scale` rounds twice and is off by less
than one unit. A Scale's mantissa is off by 2^-31 of its size, which the slack of each test covers.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from everbit.compile.operations import ESTIMATORS
from reference.fixed_point import Integers
from reference.float_program import Parameters, real
from reference.step import Step

U = 2.0**-16  # the unit of u in signs and rprelu
NEAR = 2 * U  # u is off by less than one unit; a comparison may differ only where u is this near


def biased(parameters: Parameters, x: Tensor, name: str) -> Tensor:
    return x + parameters[name].detach() if name in parameters else x


def _nothing(step: Step, p: Parameters, inputs: list[Tensor]) -> Tensor:
    return torch.zeros(())


def _one_scale(step: Step, p: Parameters, inputs: list[Tensor]) -> Tensor:
    return torch.ones(())


def _batch_norm_forward(step: Step, p: Parameters, inputs: list[Tensor]) -> Tensor:
    """xhat is off by half of 2^-11, beta by half a unit of the accumulator, and a `scale` follows."""
    gamma = step.state["gamma"]
    unit = 2.0 ** (gamma.range_exponent - 26)
    return (p["gamma"].detach().abs() * 2.0**-12 + unit / 2) / step.target.scale + 1


def _add_forward(step: Step, p: Parameters, inputs: list[Tensor]) -> Tensor:
    """A0 and A1 are off by half a unit of 2^-s, and a shift follows."""
    steps = (inputs[0] / step.sources[0].scale).abs() + (inputs[1] / step.sources[1].scale).abs()
    return 0.5 + steps * 0.5 * 2.0 ** -step.layer.attributes["s"]


def _rprelu_forward(step: Step, p: Parameters, inputs: list[Tensor]) -> Tensor:
    """u is off by a unit, its product with the slope by half a unit more, and a `scale` follows."""
    return (p["slope"].detach().abs().clamp(min=1) + 0.5) * U / step.target.scale + 1


def _concat_forward(step: Step, p: Parameters, inputs: list[Tensor]) -> Tensor:
    """A is off by half a unit of 2^-s, and a shift follows."""
    a = step.layer.attributes
    parts = []
    for k, x in enumerate(inputs):
        steps = (x / step.sources[k].scale).abs()
        parts.append(0.5 + steps * 0.5 * 2.0 ** -a[f"s{k}"])
    return torch.cat(parts, dim=3)


FORWARD_BOUNDS: dict[str, Callable[[Step, Parameters, list[Tensor]], Tensor]] = {
    "convolution": _one_scale,
    "binary_convolution": _nothing,
    "batch_norm": _batch_norm_forward,
    "add": _add_forward,
    "rprelu": _rprelu_forward,
    "average_pool": lambda step, p, inputs: torch.full((), 0.5),
    "max_pool": _nothing,
    "global_average_pool": _one_scale,
    "depthwise_convolution": _one_scale,
    "blur_pool": lambda step, p, inputs: torch.full((), 0.5),
    "global_max_pool": _nothing,
    "clamp": _nothing,
    "concat": _concat_forward,
    "flatten": _nothing,
}
"""Of a layer's output, in its integer steps, before the clamp to its bits. A sign has its own test."""


def _mean_backward(step: Step, p: Parameters, inputs: list[Tensor], g: Tensor) -> Tensor:
    """The reciprocal keeps 15 bits, each share of one: it is off by 2^-14 of its size in each window over a place."""
    window, a = step.window, step.layer.attributes
    if step.layer.kind == "global_average_pool":
        return g.abs().max() / (inputs[0].shape[1] * inputs[0].shape[2]) * 2.0**-14
    windows = (-(-window.height // window.stride)) ** 2
    places = 1 if a["inside_only"] else window.height * window.width
    return g.abs().max() * windows / places * 2.0**-14


def _batch_norm_backward(step: Step, p: Parameters, inputs: list[Tensor], g: Tensor) -> Tensor:
    """F keeps at least 14 bits of its largest value and is off by one unit."""
    A, s = (torch.from_numpy(step.array(name)).double() for name in ("A", "s"))
    slope = p["gamma"].detach() * A / 2.0**s * 2.0 ** (-11 - step.layer.attributes["input_exponent"])
    return g.abs() * slope.abs().max() * 2.0**-14


def _sign_backward(step: Step, p: Parameters, inputs: list[Tensor], g: Tensor) -> Tensor:
    u = biased(p, inputs[0], "bias")
    if ESTIMATORS[step.layer.attributes["estimator"]] == "ste_sign":
        return g.abs() * ((u.abs() - step.layer.attributes["clip"] * U).abs() < NEAR)
    # u is off by one unit, a slope of 2 doubles it; the shift drops less than one unit of 2^-15.
    return g.abs() * 2.0**-14


def _rprelu_backward(step: Step, p: Parameters, inputs: list[Tensor], g: Tensor) -> Tensor:
    near = biased(p, inputs[0], "pre").abs() < NEAR
    return g.abs() * (1 - p["slope"].detach()).abs() * near


def _exact_backward(step: Step, p: Parameters, inputs: list[Tensor], g: Tensor) -> Tensor:
    return torch.zeros(())


INPUT_BOUNDS: dict[str, Callable[[Step, Parameters, list[Tensor], Tensor], Tensor]] = {
    "convolution": _exact_backward,
    "binary_convolution": _exact_backward,
    "batch_norm": _batch_norm_backward,
    "sign": _sign_backward,
    "add": _exact_backward,
    "rprelu": _rprelu_backward,
    "average_pool": _mean_backward,
    "max_pool": _exact_backward,
    "global_average_pool": _mean_backward,
    "depthwise_convolution": _exact_backward,
    "blur_pool": _exact_backward,
    "global_max_pool": _exact_backward,
    "clamp": _exact_backward,
    "concat": _exact_backward,
    "flatten": _exact_backward,
}
"""Of the gradient of a layer's inputs before `quantize`, in real units, for the real gradient g of its output."""


def sum_bound(step: Step, name: str, p: Parameters, inputs: list[Tensor], g: Tensor) -> Tensor:
    """Of a parameter's sum in real units."""
    places = tuple(range(g.dim() - 1))
    if step.layer.kind == "batch_norm" and name == "gamma":
        return g.abs().sum(places) * 2.0**-12  # xhat is off by half of 2^-11
    if name == "slope":
        return g.abs().sum(places) * (2.0**-12 + NEAR)  # u in units of 2^-11 is off by half of one, u itself by NEAR
    if name in ("bias", "pre"):
        return (INPUT_BOUNDS[step.layer.kind](step, p, inputs, g) * torch.ones_like(g)).sum(places)
    return torch.zeros(())


def output_steps(step: Step, out: Tensor) -> Tensor:
    """Real values in integer steps of the output tensor, clamped to its bits; those of a 1-bit tensor are +1 and -1."""
    if step.target.bits == 1:
        return out
    half = 2 ** (step.target.bits - 1)
    return (out / step.target.scale + step.target.zero_point).clamp(-half, half - 1)


def real_inputs(step: Step, inputs: list[Integers]) -> list[Tensor]:
    return [real(tensor, q) for tensor, q in zip(step.sources, inputs, strict=True)]
