"""Small valid programs drawn from a NumPy Generator: residual networks, single layers, and both at their extremes.

Example:
    program = random_program(np.random.default_rng(seed))                    # everything left out is drawn
    program = random_program(rng, q_f=16, latent_bits=1, extreme=True)
    program = single_layer_program("batch_norm", rng, q_f=8, channels=65)
    images = random_images(rng, program, 4)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from everbit.compile.program import Program
from reference.extremes import at_extremes
from reference.program_builder import ProgramBuilder

AWKWARD_CHANNELS = (1, 3, 37, 64, 65, 130)
LATENT_BITS = (1, 2, 4, 6, 7, 8, 16)


def random_images(rng: np.random.Generator, program: Program, count: int) -> NDArray[np.uint8]:
    """uint8 images [count, H, W, C]; every other one holds only 0 and 255."""
    images = rng.integers(0, 256, (count, *program.input_shape)).astype(np.uint8)
    images[1::2] = np.where(images[1::2] >= 128, 255, 0)
    return images


def _coin(rng: np.random.Generator) -> bool:
    return bool(rng.random() < 0.5)


def _binary_layers(
    build: ProgramBuilder, source: int, channels: int, learnable: bool, stride: int, floor_size: bool
) -> int:
    """sign -> binary convolution; at stride 2 the size is halved, rounded up, or down for `floor_size`."""
    rng = build.rng
    bias = learnable and _coin(rng)
    signs = build.sign(source, learnable, bias, int(rng.integers(0, 2)))
    pad_value = int(rng.integers(-1, 2))
    shapes = [(3, 1), (1, 0)] if not floor_size else [(3, 0)]
    kernel, padding = shapes[int(rng.integers(len(shapes)))]
    return build.binary_convolution(signs, channels, learnable, kernel, stride, padding, pad_value)


def _frozen_block(build: ProgramBuilder, source: int) -> int:
    raw = _binary_layers(build, source, build.tensors[source].channels, False, 1, False)
    return build.add(build.affine(raw), source)


def _plain_block(build: ProgramBuilder, source: int) -> int:
    raw = _binary_layers(build, source, build.tensors[source].channels, True, 1, False)
    return build.add(build.batch_norm(raw), source)


def _downsample_block(build: ProgramBuilder, source: int, channels: int) -> int:
    """Halves the size; both branches round the same way at odd sizes."""
    tensor = build.tensors[source]
    even = tensor.height % 2 == 0 and tensor.width % 2 == 0
    odd = tensor.height % 2 == 1 and tensor.width % 2 == 1
    pooled = even or (odd and min(tensor.height, tensor.width) >= 3 and _coin(build.rng))
    raw = _binary_layers(build, source, channels, True, 2, pooled and not even)
    if pooled:
        shortcut = build.learnable_convolution(build.average_pool(source), channels)
    else:
        shortcut = build.learnable_convolution(source, channels, stride=2)
    return build.add(build.batch_norm(raw), build.batch_norm(shortcut))


def _learnable_block(build: ProgramBuilder, source: int, channels: int, downsample: bool) -> int:
    rng = build.rng
    out = _downsample_block(build, source, channels) if downsample else _plain_block(build, source)
    if _coin(rng):
        out = build.rprelu(out, _coin(rng), _coin(rng))
    if rng.random() < 0.3 and min(build.tensors[out].height, build.tensors[out].width) >= 3:
        kernel, stride, padding = [(3, 2, 1), (2, 1, 0), (3, 1, 1)][int(rng.integers(3))]
        out = build.max_pool(out, kernel, stride, padding)
    return out


def random_program(
    rng: np.random.Generator,
    *,
    q_f: int | None = None,
    latent_bits: int | None = None,
    channels: int | None = None,
    height: int | None = None,
    width: int | None = None,
    blocks: int = 3,
    downsample: bool | None = None,
    pool_features: bool | None = None,
    extreme: bool = False,
) -> Program:
    """A residual network in the style of Bi-Real Net, cut after its first block; what is None is drawn.

    blocks: learnable ones; each halves the size with `downsample` (None: a coin for each).
    """
    build = ProgramBuilder(rng, q_f or int(rng.choice([8, 16])))
    count = channels or int(rng.choice(AWKWARD_CHANNELS))
    image = build.input(height or int(rng.integers(4, 10)), width or int(rng.integers(4, 10)), int(rng.choice([1, 3])))
    out = _frozen_block(build, build.frozen_convolution(image, count))
    out = build.latent(out, latent_bits or int(rng.choice(LATENT_BITS)))
    for _ in range(blocks):
        halve = _coin(rng) if downsample is None else downsample
        small = min(build.tensors[out].height, build.tensors[out].width) < 2
        count = build.tensors[out].channels
        wider = channels or int(rng.choice(AWKWARD_CHANNELS))
        out = _learnable_block(build, out, wider if halve and not small else count, halve and not small)
    if pool_features or (pool_features is None and rng.random() < 0.7):
        build.global_average_pool(out)
    program = build.finish()
    return at_extremes(program, rng) if extreme else program


def _single_binary_convolution(build: ProgramBuilder, source: int) -> int:
    rng = build.rng
    kernel, stride, padding = [(3, 1, 1), (3, 2, 1), (3, 1, 0), (1, 1, 0), (1, 2, 0)][int(rng.integers(5))]
    signs = build.sign(source, True, False, int(rng.integers(0, 2)))
    channels = int(rng.choice(AWKWARD_CHANNELS))
    return build.binary_convolution(signs, channels, True, kernel, stride, padding, int(rng.integers(-1, 2)))


def _uneven_binary_convolution(build: ProgramBuilder, source: int) -> int:
    rng = build.rng
    signs = build.sign(source, True)
    kernel, stride = [(3, 2), (3, 1), (2, 1), (5, 3)][int(rng.integers(4))]
    padding = ("same", "any")[int(rng.integers(2))]
    return build.binary_convolution(signs, 65, True, kernel, stride, padding, int(rng.integers(-1, 2)))


def _binary_dense(build: ProgramBuilder, source: int) -> int:
    signs = build.flatten(build.sign(source, True, True))
    return build.binary_convolution(signs, int(build.rng.choice(AWKWARD_CHANNELS)), True, 1, 1, 0)


def _uneven_window(build: ProgramBuilder) -> tuple[int, int, str]:
    """Kernel, stride and padding that differs by side."""
    kernel, stride = [(3, 2), (3, 1), (2, 1), (5, 2)][int(build.rng.integers(4))]
    return kernel, stride, ("same", "any")[int(build.rng.integers(2))]


def _grouped_convolution(build: ProgramBuilder, source: int) -> int:
    """As many groups as divide the channels, up to one a channel."""
    rng, channels = build.rng, build.tensors[source].channels
    groups = int(rng.choice([n for n in range(1, channels + 1) if channels % n == 0]))
    outputs = groups * int(rng.integers(1, 20)) if groups < 20 else groups
    return build.learnable_convolution(source, outputs, *_uneven_window(build), groups)


def _clamp(build: ProgramBuilder, source: int) -> int:
    low, high = [(0.0, np.inf), (0.0, 1.0), (-1.0, 1.0), (-np.inf, 0.5)][int(build.rng.integers(4))]
    ends = (max(low, -1e6), min(high, 1e6))
    return build.clamp(source, *ends)


def _concat(build: ProgramBuilder, source: int) -> int:
    second = build.batch_norm(build.learnable_convolution(source, int(build.rng.choice(AWKWARD_CHANNELS))))
    return build.concat(build.rprelu(source, False, False), second)


def _single_convolution(build: ProgramBuilder, source: int) -> int:
    kernel, stride, padding = [(1, 1, 0), (1, 2, 0), (3, 1, 1), (3, 2, 1)][int(build.rng.integers(4))]
    channels = int(build.rng.choice(AWKWARD_CHANNELS))
    return build.learnable_convolution(source, channels, kernel, stride, padding)


def _single_sign(build: ProgramBuilder, source: int, bias: bool, estimator: int) -> int:
    signs = build.sign(source, True, bias, estimator)
    return build.binary_convolution(signs, build.tensors[source].channels, True, 1, 1, 0)


def _single_max_pool(build: ProgramBuilder, source: int) -> int:
    return build.max_pool(source, *[(3, 2, 1), (2, 1, 0), (2, 2, 0), (3, 1, 1)][int(build.rng.integers(4))])


def _separate_inside_average_pool(build: ProgramBuilder, source: int) -> int:
    """Windows side by side, which count the places inside the image."""
    kernel, padding = int(build.rng.integers(2, 4)), ("same", "any")[int(build.rng.integers(2))]
    return build.average_pool(source, kernel, kernel, padding, True)


SINGLE_LAYERS: dict[str, Callable[[ProgramBuilder, int], int]] = {
    "convolution": _single_convolution,
    "binary_convolution": _single_binary_convolution,
    "batch_norm": lambda build, source: build.batch_norm(
        build.learnable_convolution(source, build.tensors[source].channels)
    ),
    "ste_sign": lambda build, source: _single_sign(build, source, False, 0),
    "approx_sign": lambda build, source: _single_sign(build, source, False, 1),
    "ste_sign_bias": lambda build, source: _single_sign(build, source, True, 0),
    "approx_sign_bias": lambda build, source: _single_sign(build, source, True, 1),
    "add": lambda build, source: build.add(source, build.rprelu(source, False, False)),
    "rprelu": lambda build, source: build.rprelu(source, True, True),
    "prelu": lambda build, source: build.rprelu(source, False, False),
    "prelu_pre": lambda build, source: build.rprelu(source, True, False),
    "prelu_post": lambda build, source: build.rprelu(source, False, True),
    "average_pool": lambda build, source: build.average_pool(source, *[(2, 2), (3, 3)][int(build.rng.integers(2))]),
    "max_pool": _single_max_pool,
    "global_average_pool": lambda build, source: build.global_average_pool(source),
    "uneven_convolution": lambda build, source: build.learnable_convolution(source, 37, *_uneven_window(build)),
    "grouped_convolution": _grouped_convolution,
    "depthwise_convolution": lambda build, source: build.learnable_depthwise(source),
    "uneven_depthwise_convolution": lambda build, source: build.learnable_depthwise(source, *_uneven_window(build)),
    "uneven_binary_convolution": _uneven_binary_convolution,
    "binary_dense": _binary_dense,
    "dense": lambda build, source: build.learnable_convolution(build.flatten(source), 10),
    "padded_average_pool": lambda build, source: build.average_pool(source, *_uneven_window(build)),
    "inside_average_pool": lambda build, source: build.average_pool(source, *_uneven_window(build), True),
    "separate_inside_average_pool": _separate_inside_average_pool,
    "uneven_max_pool": lambda build, source: build.max_pool(source, *_uneven_window(build)),
    "global_max_pool": lambda build, source: build.global_max_pool(
        build.batch_norm(build.learnable_convolution(source, int(build.rng.choice(AWKWARD_CHANNELS))))
    ),
    "blur_pool": lambda build, source: build.blur_pool(source, int(build.rng.integers(1, 4)), "same"),
    "uneven_blur_pool": lambda build, source: build.blur_pool(source, int(build.rng.integers(1, 3)), "any"),
    "clamp": _clamp,
    "concat": _concat,
    "flatten": lambda build, source: build.flatten(source),
}
"""Layers to test; a sign is followed by the binary convolution that reads it, a batch norm stands on a convolution."""


def single_layer_program(
    kind: str,
    rng: np.random.Generator,
    *,
    q_f: int | None = None,
    latent_bits: int = 8,
    channels: int | None = None,
    height: int | None = None,
    width: int | None = None,
    extreme: bool = False,
) -> Program:
    """input -> convolution -> latent -> rprelu -> the layer `kind` (a key of SINGLE_LAYERS) -> features.

    The rprelu is trainable, so that the layer under test must pass a gradient down.
    """
    build = ProgramBuilder(rng, q_f or int(rng.choice([8, 16])))
    image = build.input(height or int(rng.integers(3, 10)), width or int(rng.integers(3, 10)), int(rng.choice([1, 3])))
    out = build.frozen_convolution(image, channels or int(rng.choice(AWKWARD_CHANNELS)))
    SINGLE_LAYERS[kind](build, build.rprelu(build.latent(out, latent_bits), True, True))
    program = build.finish()
    return at_extremes(program, rng) if extreme else program
