"""One binary 3x3 convolution, 56x56, 64 to 64 channels, on one image, against a float32 one in PyTorch."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from everbit import engine
from everbit.benchmarks.timing import clock_for, compared, interleaved, several
from everbit.compile.builder import ProgramBuilder
from everbit.compile.image import program_image
from everbit.compile.program import Head, Program, Tensor
from everbit.packed_weights import pack_binary_weights
from everbit.quantize.scale import scale_of

SIDE = 56
CHANNELS = 64
SIGN, CONVOLUTION = 3, 4  # layers of the program
CALLS = 10
"""Of each, for one time that is long enough to take."""


def measure(repeats: int, threads: int) -> dict[str, object]:
    """The field counts from packed bits to 16-bit sums; beside it stands the same with the sign that packs 8 bits."""
    torch.set_num_threads(threads)
    options = {"q_bin": 1, "q_nonbin": 8, "classes": 1, "cwr": True, "learning_rates": [], "threads": threads}
    network = engine.Network(program_image(_program()), 1, options)
    network.forward(np.full((1, SIDE * SIDE * CHANNELS // 8), 0b01101001, np.uint8))
    values = torch.randn(1, CHANNELS, SIDE, SIDE)
    weight = torch.randn(CHANNELS, CHANNELS, 3, 3)

    def layers(*indices: int) -> None:
        for index in indices:
            network.forward_layer(index)

    def torch_convolution() -> None:
        with torch.no_grad():
            functional.conv2d(values, weight, padding=1)

    contenders = {
        "everbit": lambda: layers(CONVOLUTION),
        "everbit_with_sign": lambda: layers(SIGN, CONVOLUTION),
        "torch": torch_convolution,
    }
    turns = {name: several(run, CALLS) for name, run in contenders.items()}
    times = interleaved(turns, repeats, clock_for(threads))
    details = {name: compared(times, "torch", name) for name in ("everbit", "everbit_with_sign")}
    return {
        "conv3x3_56x56x64_speedup_vs_torch_fp32": details["everbit"]["ratio"],
        "binary_convolution": {"calls": CALLS, **details},
    }


def _program() -> Program:
    """Input, 8-bit values, one-bit latent, sign, convolution, and a pool that ends it as a program must end."""
    build = ProgramBuilder()
    ones = np.ones(CHANNELS, np.int32)
    image = build.add(
        "input", "input", (), Tensor(SIDE, SIDE, CHANNELS, 16), arrays={"offset": (255 * ones).astype(np.int16)}
    )
    affine: dict[str, NDArray[np.generic]] = {"A": ones.astype(np.int16), "B": 0 * ones, "s": ones.astype(np.uint8)}
    values = build.add("affine", "values", (image,), Tensor(SIDE, SIDE, CHANNELS, 8), arrays=affine)
    codings = dict.fromkeys(("encode_A", "encode_B", "encode_s", "decode_A", "decode_B", "decode_s"), 0)
    levels: dict[str, NDArray[np.generic]] = {
        "threshold": 0 * ones,
        "low": (-ones).astype(np.int16),
        "high": ones.astype(np.int16),
    }
    latent = build.add(
        "latent", "latent", (values,), build.tensors[values], attributes={"bits": 1, **codings}, arrays=levels
    )
    unit_mantissa, unit_exponent = scale_of(2.0**16)
    scales = {"estimator": 0, "clip": 2**16, "input_mantissa": unit_mantissa, "input_exponent": unit_exponent}
    packed = Tensor(SIDE, SIDE, CHANNELS, 1)
    bits = build.add("sign", "sign", (latent,), packed, attributes=scales, arrays={"threshold": 0 * ones})
    window = {"kernel_height": 3, "kernel_width": 3, "stride": 1, "padding": 1, "pad_value": 0}
    weights = np.random.default_rng(0).random((CHANNELS, 9, CHANNELS)) < 0.5
    sums = build.add(
        "binary_convolution",
        "convolution",
        (bits,),
        Tensor(SIDE, SIDE, CHANNELS, 16),
        attributes=window,
        arrays={"bits": pack_binary_weights(weights)},
    )
    mantissa, exponent = scale_of(1 / SIDE**2)
    build.add(
        "global_average_pool",
        "pool",
        (sums,),
        Tensor(1, 1, CHANNELS, 8),
        attributes={"multiplier_mantissa": mantissa, "multiplier_exponent": exponent},
    )
    return Program(tuple(build.tensors), tuple(build.layers), Head(0, scale_of(2.0**16), scale_of(1.0)))
