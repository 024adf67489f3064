"""Builds valid programs layer by layer, with constants drawn so that activations neither die nor all saturate.

Every tensor carries a rough standard deviation of its real values; scales and constants follow from it, without running
the program.
"""

from __future__ import annotations

from dataclasses import replace
from math import frexp, log2, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from everbit.compile.program import Head, Layer, Parameter, Program, Tensor
from everbit.packed_weights import pack_binary_weights

INT32 = 2.0**31
Padding = int | str
"""Rows and columns on each side, or "same" as TensorFlow pads, or "any": drawn for each side."""


def scale_constant(real: float) -> tuple[int, int]:
    """The Scale (mantissa, exponent) nearest to a real number."""
    fraction, exponent = frexp(real)
    mantissa = round(fraction * INT32)
    return (mantissa // 2, exponent + 1) if abs(mantissa) == 2**31 else (mantissa, exponent)


def affine_constants(
    a: float, b: float, limit: int = 2**15 - 1, most_offset: int = 2**29, most_shift: int = 29
) -> tuple[int, int, int]:
    """(A, B, s) of q -> a q + b with the largest shift that the ranges allow."""
    shifts = range(most_shift + 1)
    s = max(s for s in shifts if s == 0 or (abs(a) * 2**s <= limit and abs(b) * 2**s <= most_offset))
    return round(a * 2**s), round(b * 2**s), s


WIDE = (2**31 - 1, 2**61, 61)
"""Limits of affine_constants where a tensor has 32 bits."""


class ProgramBuilder:
    """Adds layers one at a time; each method takes tensor indices and returns the index of its output."""

    def __init__(self, rng: np.random.Generator, q_f: int) -> None:
        self.rng, self.q_f = rng, q_f
        self.tensors: list[Tensor] = []
        self.deviations: list[float] = []
        self.layers: list[Layer] = []

    def _tensor(self, tensor: Tensor, deviation: float) -> int:
        self.tensors.append(tensor)
        self.deviations.append(deviation)
        return len(self.tensors) - 1

    def _activation(self, height: int, width: int, channels: int, deviation: float) -> int:
        """A tensor of q_f bits that holds 4 standard deviations on each side of its zero point."""
        side = 2 ** (self.q_f - 5)
        offset = int(self.rng.integers(-side, side)) if self.q_f < 32 else 0
        return self._tensor(Tensor(height, width, channels, self.q_f, offset, 8 * deviation / 2**self.q_f), deviation)

    def _like(self, source: int, height: int, width: int) -> int:
        return self._tensor(replace(self.tensors[source], height=height, width=width), self.deviations[source])

    def _layer(
        self,
        kind: str,
        inputs: tuple[int, ...],
        output: int,
        attributes: dict[str, int] | None = None,
        arrays: dict[str, NDArray[np.generic]] | None = None,
        parameters: dict[str, Parameter] | None = None,
    ) -> int:
        name = f"layer{len(self.layers)}_{kind}"
        self.layers.append(Layer(kind, name, inputs, output, attributes or {}, arrays or {}, parameters or {}))
        return output

    def parameter(self, real: NDArray[np.float64], range_exponent: int) -> Parameter:
        """A parameter of real values, clamped to its range."""
        values = np.clip(np.round(real * 2.0 ** (31 - range_exponent)), -(2**31 - 1), 2**31 - 1)
        return Parameter(values.astype(np.int32), range_exponent)

    def _bias(self, channels: int) -> Parameter:
        return self.parameter(self.rng.normal(0, 0.3, channels), int(self.rng.integers(-1, 2)))

    def _affine_arrays(
        self, a: NDArray[np.float64], b: NDArray[np.float64], wide: bool = False
    ) -> dict[str, NDArray[np.generic]]:
        limits = WIDE if wide else ()
        constants = [affine_constants(x, y, *limits) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        A, B, s = (np.array(column) for column in zip(*constants, strict=True))
        types = (np.int32, np.int64) if wide else (np.int16, np.int32)
        return {"A": A.astype(types[0]), "B": B.astype(types[1]), "s": s.astype(np.uint8)}

    def _window(
        self, source: int, kernel: int, stride: int, padding: Padding
    ) -> tuple[tuple[int, int], dict[str, int]]:
        """Size of the output, and the attributes stride, padding and skew."""
        tensor = self.tensors[source]
        sizes = (tensor.height, tensor.width)
        if padding == "same":
            out = [-(-size // stride) for size in sizes]
            before = [max(0, (n - 1) * stride + kernel - size) // 2 for n, size in zip(out, sizes, strict=True)]
        elif padding == "any":
            before = [int(self.rng.integers(0, kernel)) for _ in sizes]
            least = [max(0, size + p - kernel) // stride + 1 for size, p in zip(sizes, before, strict=True)]
            most = [(size - 1 + p) // stride + 1 for size, p in zip(sizes, before, strict=True)]
            out = [int(self.rng.integers(*ends, endpoint=True)) for ends in zip(least, most, strict=True)]
        else:
            before = [int(padding), int(padding)]
            out = [(size + 2 * int(padding) - kernel) // stride + 1 for size in sizes]
        return (out[0], out[1]), {"stride": stride, "padding": before[0], "skew": before[1] - before[0]}

    def input(self, height: int, width: int, channels: int) -> int:
        output = self._tensor(Tensor(height, width, channels, 16, 0, 1 / 128), 1.2)
        offset = self.rng.integers(200, 310, channels).astype(np.int16)
        return self._layer("input", (), output, arrays={"offset": offset})

    def frozen_convolution(
        self,
        source: int,
        channels: int,
        kernel: int = 3,
        stride: int = 1,
        padding: Padding = 1,
        groups: int = 1,
    ) -> int:
        shape = (channels, kernel, kernel, self.tensors[source].channels // groups)
        return self._frozen_weights("convolution", source, channels, kernel, stride, padding, shape, {"groups": groups})

    def frozen_depthwise(self, source: int, kernel: int = 3, stride: int = 1, padding: Padding = 1) -> int:
        channels = self.tensors[source].channels
        shape = (kernel, kernel, channels)
        return self._frozen_weights("depthwise_convolution", source, channels, kernel, stride, padding, shape, {})

    def _frozen_weights(
        self,
        kind: str,
        source: int,
        channels: int,
        kernel: int,
        stride: int,
        padding: Padding,
        shape: tuple[int, ...],
        extra: dict[str, int],
    ) -> int:
        tensor = self.tensors[source]
        size, window = self._window(source, kernel, stride, padding)
        output = self._activation(*size, channels, 1.0)
        deviation = 73 * sqrt(prod(shape) / channels) * self.deviations[source] / tensor.scale
        jitter = self.rng.uniform(0.5, 1.5, channels) / (deviation * self.tensors[output].scale)
        mantissas, exponents = zip(*map(scale_constant, jitter.tolist()), strict=True)
        weight = self.rng.integers(-127, 128, shape).astype(np.int8)
        bias = np.round(self.rng.normal(0, deviation / 2, channels))
        arrays: dict[str, NDArray[np.generic]] = {
            "weight": weight,
            "bias": np.clip(bias, -(2**31), 2**31 - 1).astype(np.int32),
            "multiplier_mantissa": np.array(mantissas, np.int32),
            "multiplier_exponent": np.array(exponents, np.int8),
        }
        attributes = {"kernel_height": kernel, "kernel_width": kernel, "input_mantissa": 0, "input_exponent": 0}
        return self._layer(kind, (source,), output, attributes | window | extra, arrays)

    def learnable_convolution(
        self,
        source: int,
        channels: int,
        kernel: int = 1,
        stride: int = 1,
        padding: Padding = 0,
        groups: int = 1,
    ) -> int:
        shape = (channels, kernel, kernel, self.tensors[source].channels // groups)
        return self._learnable_weights(
            "convolution", source, channels, kernel, stride, padding, shape, {"groups": groups}
        )

    def learnable_depthwise(self, source: int, kernel: int = 3, stride: int = 1, padding: Padding = 1) -> int:
        channels = self.tensors[source].channels
        shape = (kernel, kernel, channels)
        return self._learnable_weights("depthwise_convolution", source, channels, kernel, stride, padding, shape, {})

    def _learnable_weights(
        self,
        kind: str,
        source: int,
        channels: int,
        kernel: int,
        stride: int,
        padding: Padding,
        shape: tuple[int, ...],
        extra: dict[str, int],
    ) -> int:
        tensor = self.tensors[source]
        size, window = self._window(source, kernel, stride, padding)
        deviation = self.deviations[source] * sqrt(prod(shape) / channels) * 0.3
        power = round(log2(deviation)) - 11
        output = self._tensor(Tensor(*size, channels, 16, 0, 2.0**power), deviation)
        range_exponent = int(self.rng.integers(-1, 2))
        weight = self.parameter(self.rng.normal(0, 0.3, shape), range_exponent)
        mantissa, exponent = scale_constant(tensor.scale * 2.0 ** (range_exponent - 7 - power))
        input_mantissa, input_exponent = scale_constant(tensor.scale)
        attributes = {"kernel_height": kernel, "kernel_width": kernel}
        attributes |= {"input_mantissa": input_mantissa, "input_exponent": input_exponent}
        arrays: dict[str, NDArray[np.generic]] = {
            "multiplier_mantissa": np.array([mantissa], np.int32),
            "multiplier_exponent": np.array([exponent], np.int8),
        }
        return self._layer(kind, (source,), output, attributes | window | extra, arrays, {"weight": weight})

    def sign(self, source: int, learnable: bool, bias: bool = False, estimator: int = 0) -> int:
        """Signs of a tensor; in the frozen part by thresholds alone."""
        tensor = self.tensors[source]
        output = self._tensor(Tensor(tensor.height, tensor.width, tensor.channels, 1), 1.0)
        mantissa, exponent = scale_constant(tensor.scale * 65536)
        attributes = {"estimator": estimator, "clip": int(65536 * self.rng.choice([1.0, 1.25]))}
        attributes |= {"input_mantissa": mantissa, "input_exponent": exponent}
        if bias:
            return self._layer("sign", (source,), output, attributes, {}, {"bias": self._bias(tensor.channels)})
        threshold = np.full(tensor.channels, tensor.zero_point, np.int32)
        if not learnable:
            threshold += np.round(self.rng.normal(0, 0.2 / tensor.scale, tensor.channels)).astype(np.int32)
        return self._layer("sign", (source,), output, attributes, {"threshold": threshold})

    def binary_convolution(
        self,
        source: int,
        channels: int,
        learnable: bool,
        kernel: int = 3,
        stride: int = 1,
        padding: Padding = 1,
        pad_value: int = 0,
    ) -> int:
        tensor = self.tensors[source]
        taps = kernel * kernel
        size, window = self._window(source, kernel, stride, padding)
        output = self._tensor(Tensor(*size, channels, 16), sqrt(taps * tensor.channels))
        bits = self.rng.random((channels, taps, tensor.channels)) < 0.5
        magnitude = np.array([int(2 ** self.rng.uniform(25, 31)) - 1], np.int32)
        attributes = {"kernel_height": kernel, "kernel_width": kernel, "pad_value": pad_value} | window
        parameters = {"weight": Parameter(magnitude, 0)} if learnable else {}
        return self._layer(
            "binary_convolution", (source,), output, attributes, {"bits": pack_binary_weights(bits)}, parameters
        )

    def _normalizers(self, source: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Factors and offsets [C] that bring a raw tensor's integers to about unit deviation."""
        tensor = self.tensors[source]
        signs = self.rng.choice([-1, 1], tensor.channels)
        factor = signs * self.rng.uniform(0.5, 1.5, tensor.channels) * tensor.scale / self.deviations[source]
        return factor, self.rng.normal(0, 0.3, tensor.channels)

    def affine(self, source: int) -> int:
        tensor = self.tensors[source]
        output = self._activation(tensor.height, tensor.width, tensor.channels, 1.0)
        factor, offset = self._normalizers(source)
        step = self.tensors[output].scale
        arrays = self._affine_arrays(factor / step, offset / step, 32 in (tensor.bits, self.q_f))
        return self._layer("affine", (source,), output, arrays=arrays)

    def batch_norm(self, source: int) -> int:
        tensor = self.tensors[source]
        output = self._activation(tensor.height, tensor.width, tensor.channels, 1.0)
        factor, offset = self._normalizers(source)
        gamma_range, beta_range = int(self.rng.integers(0, 2)), int(self.rng.integers(-1, 2))
        signs = self.rng.choice([-1, 1], tensor.channels)
        parameters = {
            "gamma": self.parameter(signs * self.rng.uniform(0.3, 1.0, tensor.channels), gamma_range),
            "beta": self.parameter(self.rng.normal(0, 0.3, tensor.channels), beta_range),
        }
        mantissa, exponent = scale_constant(2.0 ** (gamma_range - 26) / self.tensors[output].scale)
        attributes = {
            "output_mantissa": mantissa,
            "output_exponent": exponent,
            "input_exponent": round(log2(tensor.scale)),
        }
        arrays = self._affine_arrays(factor * 2**11, offset * 2**11)
        return self._layer("batch_norm", (source,), output, attributes, arrays, parameters)

    def add(self, first: int, second: int) -> int:
        tensors = self.tensors[first], self.tensors[second]
        deviation = sqrt(self.deviations[first] ** 2 + self.deviations[second] ** 2)
        output = self._activation(tensors[0].height, tensors[0].width, tensors[0].channels, deviation)
        ratios = [tensor.scale / self.tensors[output].scale for tensor in tensors]
        wide = 32 in (self.q_f, tensors[0].bits, tensors[1].bits)
        if wide:
            s = affine_constants(max(ratios), 0.0, 2**30 - 1, *WIDE[1:])[2]
        else:
            s = affine_constants(max(ratios), 2.0**14, 2**13 - 1)[2]
        A0, A1 = (round(ratio * 2**s) for ratio in ratios)
        offset = 0 if wide else -(A0 * tensors[0].zero_point + A1 * tensors[1].zero_point)
        return self._layer("add", (first, second), output, {"A0": A0, "A1": A1, "B": offset, "s": s})

    def rprelu(self, source: int, pre: bool, post: bool) -> int:
        tensor = self.tensors[source]
        output = self._activation(tensor.height, tensor.width, tensor.channels, self.deviations[source])
        slope = self.rng.normal(0.25, 0.2, tensor.channels)
        parameters = {"slope": self.parameter(slope, int(self.rng.integers(0, 2)))}
        for name, present in (("pre", pre), ("post", post)):
            if present:
                parameters[name] = self._bias(tensor.channels)
        attributes = {}
        for name, real in (("input", tensor.scale * 65536), ("output", 1 / (65536 * self.tensors[output].scale))):
            attributes[f"{name}_mantissa"], attributes[f"{name}_exponent"] = scale_constant(real)
        return self._layer("rprelu", (source,), output, attributes, {}, parameters)

    def average_pool(
        self, source: int, kernel: int = 2, stride: int = 2, padding: Padding = 0, inside_only: bool = False
    ) -> int:
        size, window = self._window(source, kernel, stride, padding)
        attributes = {"kernel": kernel, "inside_only": int(inside_only)} | window
        return self._layer("average_pool", (source,), self._like(source, *size), attributes)

    def max_pool(self, source: int, kernel: int, stride: int, padding: Padding) -> int:
        size, window = self._window(source, kernel, stride, padding)
        return self._layer("max_pool", (source,), self._like(source, *size), {"kernel": kernel} | window)

    def blur_pool(self, source: int, stride: int = 2, padding: Padding = 1) -> int:
        size, window = self._window(source, 3, stride, padding)
        return self._layer("blur_pool", (source,), self._like(source, *size), window)

    def global_max_pool(self, source: int) -> int:
        return self._layer("global_max_pool", (source,), self._like(source, 1, 1))

    def clamp(self, source: int, low: float, high: float) -> int:
        """Bounds in real numbers, rounded to the tensor's steps and to one beyond its range."""
        tensor = self.tensors[source]
        half = 2 ** (tensor.bits - 1)
        least, most = (-half - 1, half) if tensor.bits < 32 else (-half, half - 1)
        low_step, high_step = (round(tensor.zero_point + bound / tensor.scale) for bound in (low, high))
        attributes = {"low": max(low_step, least), "high": min(high_step, most)}
        return self._layer("clamp", (source,), self._like(source, tensor.height, tensor.width), attributes)

    def concat(self, first: int, second: int) -> int:
        tensors = self.tensors[first], self.tensors[second]
        deviation = max(self.deviations[first], self.deviations[second])
        channels = tensors[0].channels + tensors[1].channels
        output = self._activation(tensors[0].height, tensors[0].width, channels, deviation)
        attributes = {}
        for k, tensor in enumerate(tensors):
            ratio = tensor.scale / self.tensors[output].scale
            attributes[f"A{k}"], _, attributes[f"s{k}"] = affine_constants(ratio, 0.0, 2**30 - 1, *WIDE[1:])
        return self._layer("concat", (first, second), output, attributes)

    def flatten(self, source: int) -> int:
        tensor = self.tensors[source]
        shape = {"height": 1, "width": 1, "channels": tensor.height * tensor.width * tensor.channels}
        return self._layer("flatten", (source,), self._tensor(replace(tensor, **shape), self.deviations[source]))

    def global_average_pool(self, source: int) -> int:
        tensor = self.tensors[source]
        places = tensor.height * tensor.width
        output = self._activation(1, 1, tensor.channels, self.deviations[source] / sqrt(places))
        mantissa, exponent = scale_constant(tensor.scale / (places * self.tensors[output].scale))
        attributes = {"multiplier_mantissa": mantissa, "multiplier_exponent": exponent}
        return self._layer("global_average_pool", (source,), output, attributes)

    def latent(self, source: int, bits: int) -> int:
        """The cut, with 4 standard deviations on each side spread over the codes."""
        tensor = self.tensors[source]
        output = self._like(source, tensor.height, tensor.width)
        attributes = {"bits": bits} | {f"{way}_{name}": 0 for way in ("encode", "decode") for name in ("A", "B", "s")}
        arrays: dict[str, NDArray[np.generic]] = {}
        if tensor.bits > 1 and bits == 1:
            middle = tensor.zero_point + self.rng.normal(0, 0.2, tensor.channels) / tensor.scale
            spread = self.rng.uniform(0.5, 1.0, tensor.channels) / tensor.scale
            arrays["threshold"] = np.round(middle).astype(np.int32)
            dtype = np.int32 if tensor.bits == 32 else np.int16
            arrays["low"], arrays["high"] = (np.round(middle + side * spread).astype(dtype) for side in (-1, 1))
        elif tensor.bits == 1:
            pass  # signs are stored as they are
        elif tensor.bits == 32:
            factor = (2**bits - 1) / (2**32 - 1)
            encode_A, _, encode_s = affine_constants(factor, 0.0, 2**30 - 1, *WIDE[1:])
            decode_A, _, decode_s = affine_constants(1 / factor, 0.0, *WIDE)
            attributes |= {"encode_A": encode_A, "encode_B": -(2**31), "encode_s": encode_s}
            attributes |= {"decode_A": decode_A, "decode_B": -(2**31), "decode_s": decode_s}
        else:
            least, factor = -(2 ** (tensor.bits - 1)), (2**bits - 1) / (2**tensor.bits - 1)
            limit = 2**14 if bits == 16 else 2**15 - 1  # a code of 16 bits leaves one bit less to A
            encode, decode = affine_constants(factor, -least * factor), affine_constants(1 / factor, least, limit)
            for way, constants in (("encode", encode), ("decode", decode)):
                for name, value in zip(("A", "B", "s"), constants, strict=True):
                    attributes[f"{way}_{name}"] = value
        return self._layer("latent", (source,), output, attributes, arrays)

    def finish(self) -> Program:
        """The program; its last layer holds the features. Random head weights give logits of a few units."""
        last = self.tensors[self.layers[-1].output]
        deviation = self.deviations[self.layers[-1].output] * sqrt(prod((last.height, last.width, last.channels)))
        range_exponent = round(log2(8 / deviation))
        logit = scale_constant(last.scale * 2.0 ** (range_exponent + 16))
        head = Head(range_exponent, logit, scale_constant(last.scale))
        return Program(tuple(self.tensors), tuple(self.layers), head)
