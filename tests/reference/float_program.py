"""The learnable part of a program in real numbers: PyTorch float64, derivatives by autograd.

Parameters are the real values of what the integer forward pass sees. Nothing is rounded. Normalized values are clamped
as the integers are, and the derivative ignores the clamp, as docs/arithmetic.md does. A sign's derivative is that of
its estimator.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from everbit.compile import program as everbit_program
from everbit.compile.operations import ESTIMATORS
from reference.fixed_point import Gradient, Integers
from reference.network import ReferenceNetwork
from reference.step import Step

Parameters = dict[str, Tensor]


def real(tensor: everbit_program.Tensor, q: Integers) -> Tensor:
    """Real values of a tensor's integers."""
    return tensor.scale * (torch.from_numpy(q) - tensor.zero_point).double()


def real_parameters(step: Step) -> Parameters:
    """The layer's parameters as leaves that take a gradient."""
    parameters = {}
    for name, state in step.state.items():
        if state.kind == "binary":
            values, power = state.values, -(state.bits - 1)
        elif state.kind == "weight":
            values, power = state.p8, state.range_exponent - 7
        else:
            values, power = state.p16, state.range_exponent - 15
        parameters[name] = (torch.from_numpy(values).double() * 2.0**power).requires_grad_()
    return parameters


def with_value(derivative: Tensor, value: Tensor) -> Tensor:
    """A tensor of the values of one and the derivative of the other."""
    return derivative + (value - derivative).detach()


def _nchw(x: Tensor) -> Tensor:
    return x.permute(0, 3, 1, 2)


def _nhwc(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1)


def _padded(step: Step, x: Tensor, value: float) -> Tensor:
    """float64 [N, C, H, W] with a border as far as the windows reach."""
    window, source = step.window, step.sources[0]
    bottom = (window.out_height - 1) * window.stride + window.height - window.top - source.height
    right = (window.out_width - 1) * window.stride + window.width - window.left - source.width
    return functional.pad(_nchw(x), [window.left, max(right, 0), window.top, max(bottom, 0)], value=value)


def _correlate(step: Step, x: Tensor, weight: Tensor, pad_value: float) -> Tensor:
    """weight: [C_out, height, width, C_in / groups]."""
    groups = step.sources[0].channels // weight.shape[3]
    padded = _padded(step, x, pad_value)
    return _nhwc(functional.conv2d(padded, _nchw(weight), stride=step.window.stride, groups=groups))


def convolution(step: Step, p: Parameters, x: Tensor) -> Tensor:
    return _correlate(step, x, p["weight"], 0.0)


def depthwise_convolution(step: Step, p: Parameters, x: Tensor) -> Tensor:
    return _correlate(step, x, p["weight"].permute(2, 0, 1).unsqueeze(3), 0.0)


def binary_convolution(step: Step, p: Parameters, x: Tensor) -> Tensor:
    signs = torch.where(p["weight"] >= 0, 1.0, -1.0).double()
    return _correlate(step, x, with_value(p["weight"], signs), float(step.layer.attributes["pad_value"]))


def batch_norm(step: Step, p: Parameters, x: Tensor) -> Tensor:
    A, B, s = (torch.from_numpy(step.array(name)).double() for name in ("A", "B", "s"))
    q = x * 2.0 ** -step.layer.attributes["input_exponent"]
    xhat = (q * A + B) / 2.0**s / 2**11
    return p["gamma"] * with_value(xhat, xhat.clamp(-16, 16 - 2.0**-11)) + p["beta"]


def sign(step: Step, p: Parameters, x: Tensor) -> Tensor:
    attributes, source = step.layer.attributes, step.sources[0]
    u = x + p["bias"] if "bias" in p else x
    if ESTIMATORS[attributes["estimator"]] == "ste_sign":
        slope = (u.abs() <= attributes["clip"] / 65536).double()
    else:
        slope = (2 - 2 * u.abs()).clamp(min=0)
    threshold = 0.0 if "bias" in p else (torch.from_numpy(step.array("threshold")) - source.zero_point) * source.scale
    return with_value(u * slope.detach(), torch.where(u >= threshold, 1.0, -1.0).double())


def add(step: Step, p: Parameters, first: Tensor, second: Tensor) -> Tensor:
    return first + second


def rprelu(step: Step, p: Parameters, x: Tensor) -> Tensor:
    u = x + p["pre"] if "pre" in p else x
    v = torch.where(u > 0, u, p["slope"] * u)
    return v + p["post"] if "post" in p else v


def average_pool(step: Step, p: Parameters, x: Tensor) -> Tensor:
    window = step.window
    weight = torch.ones(x.shape[3], window.height, window.width, 1, dtype=torch.float64)
    places = torch.full((), float(window.height * window.width))
    if step.layer.attributes["inside_only"]:
        places = _correlate(step, torch.ones_like(x), weight, 0.0)
    return _correlate(step, x, weight, 0.0) / places


def max_pool(step: Step, p: Parameters, x: Tensor) -> Tensor:
    return _nhwc(functional.max_pool2d(_padded(step, x, -torch.inf), step.window.height, step.window.stride))


def global_max_pool(step: Step, p: Parameters, x: Tensor) -> Tensor:
    return _nhwc(functional.max_pool2d(_nchw(x), x.shape[1:3]))


def blur_pool(step: Step, p: Parameters, x: Tensor) -> Tensor:
    row = torch.tensor([0.25, 0.5, 0.25], dtype=torch.float64)
    return _correlate(step, x, torch.outer(row, row)[None, :, :, None].expand(x.shape[3], 3, 3, 1), 0.0)


def clamp(step: Step, p: Parameters, x: Tensor) -> Tensor:
    source, a = step.sources[0], step.layer.attributes
    return functional.hardtanh(x, *(source.scale * (a[name] - source.zero_point) for name in ("low", "high")))


def concat(step: Step, p: Parameters, first: Tensor, second: Tensor) -> Tensor:
    return torch.cat([first, second], dim=3)


def flatten(step: Step, p: Parameters, x: Tensor) -> Tensor:
    return _nchw(x).flatten(1)[:, None, None]


def global_average_pool(step: Step, p: Parameters, x: Tensor) -> Tensor:
    return x.mean(dim=(1, 2), keepdim=True)


FLOAT_FORWARD: dict[str, Callable[..., Tensor]] = {
    "convolution": convolution,
    "binary_convolution": binary_convolution,
    "batch_norm": batch_norm,
    "sign": sign,
    "add": add,
    "rprelu": rprelu,
    "average_pool": average_pool,
    "max_pool": max_pool,
    "global_average_pool": global_average_pool,
    "depthwise_convolution": depthwise_convolution,
    "blur_pool": blur_pool,
    "global_max_pool": global_max_pool,
    "clamp": clamp,
    "concat": concat,
    "flatten": flatten,
}


class FloatProgram:
    """The network's learnable part at the activations of its last forward pass.

    Every tensor takes the real value of the integers, so that no sign flips, and the derivative of the real rule.
    tensors[tensor index] and parameters[layer index][name] hold gradients after `backward`.
    """

    def __init__(self, network: ReferenceNetwork) -> None:
        program = network.program
        self.tensors: dict[int, Tensor] = {}
        self.parameters: dict[int, Parameters] = {}
        for index in range(program.latent_index, len(program.layers)):
            layer = program.layers[index]
            value = real(program.tensors[layer.output], network.activations[layer.output])
            if layer.kind == "latent":
                self.tensors[layer.output] = value
                continue
            step = network.step(index)
            self.parameters[index] = real_parameters(step)
            inputs = [self.tensors[source] for source in layer.inputs]
            out = FLOAT_FORWARD[layer.kind](step, self.parameters[index], *inputs)
            self.tensors[layer.output] = with_value(out, value)
            if out.requires_grad:
                self.tensors[layer.output].retain_grad()
        self.features = self.tensors[program.layers[-1].output]

    def backward(self, gradient: Gradient) -> None:
        """Backward pass from the gradient of the features."""
        values = torch.from_numpy(gradient.values).double() * 2.0**gradient.exponent
        torch.autograd.backward(self.features, values.reshape(self.features.shape))
