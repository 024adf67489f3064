"""Borders and pools. ONNX takes a border on each side by itself, so that sizes follow from no rule of rounding."""

from __future__ import annotations

import numpy as np
from torch import fx, nn

from everbit.formats.exporters.onnx.builder import GraphBuilder, Shape
from everbit.nn.windows import BlurPool2d, SamePad2d, same_padding

Sides = tuple[tuple[int, int], tuple[int, int]]
"""Places above and below, left and right of a map."""

NO_BORDER: Sides = ((0, 0), (0, 0))


def pads(sides: Sides) -> list[int]:
    """Sides in ONNX's order: above, left, below, right."""
    (top, bottom), (left, right) = sides
    return [top, left, bottom, right]


def same_sides(shape: Shape, kernel: int, stride: int) -> Sides:
    """The border of TensorFlow's "same" around a map [N, C, H, W]."""
    return same_padding(shape[2], kernel, stride), same_padding(shape[3], kernel, stride)


def add_border(build: GraphBuilder, node: fx.Node, source: str, sides: Sides, value: float) -> tuple[str, Sides]:
    """A border in front of a window: the padded map, and the border left to the window, which fills it with 0."""
    if value == 0 or not any(pads(sides)):
        return source, sides
    return pad(build, node, source, sides, value, "padded"), NO_BORDER


def pad(build: GraphBuilder, node: fx.Node, source: str, sides: Sides, value: float, part: str = "") -> str:
    """A map with a border; as it is where every side is 0."""
    top, left, bottom, right = pads(sides)
    if not any((top, left, bottom, right)):
        return source
    amounts = build.integers(node, "pads", [0, 0, top, left, 0, 0, bottom, right])
    inputs = [source, amounts, build.scalar(value)]
    return build.step(node, "Pad", inputs, part, mode="constant")


def same_pad(build: GraphBuilder, node: fx.Node) -> None:
    """TensorFlow's "same", for the window behind it."""
    module = build.module(node)
    assert isinstance(module, SamePad2d)
    sides = same_sides(build.input_shape(node), module.kernel_size, module.stride)
    build.values[node] = pad(build, node, build.read(node), sides, module.value)


def constant_pad(build: GraphBuilder, node: fx.Node) -> None:
    """A border with its own width on each side."""
    module = build.module(node)
    assert isinstance(module, (nn.ZeroPad2d, nn.ConstantPad2d))
    left, right, top, bottom = (int(length) for length in module.padding)
    if min(left, right, top, bottom) < 0:
        raise build.error(node, "cuts the map")
    build.values[node] = pad(build, node, build.read(node), ((top, bottom), (left, right)), float(module.value))


def _pair(lengths: object) -> tuple[int, int]:
    """A number for both axes, or one for each."""
    if isinstance(lengths, (tuple, list)):
        down, across = lengths
        return int(down), int(across)
    assert isinstance(lengths, int)
    return lengths, lengths


def max_pool(build: GraphBuilder, node: fx.Node) -> None:
    """Maximum over windows; what lies outside of the map never wins."""
    module = build.module(node)
    assert isinstance(module, nn.MaxPool2d)
    kernel, stride, border, dilation = map(_pair, (module.kernel_size, module.stride, module.padding, module.dilation))
    spans = tuple(d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True))
    sides = _reached(build, node, build.input_shape(node)[2:], spans, stride, border)
    build.values[node] = build.step(
        node,
        "MaxPool",
        [build.read(node)],
        kernel_shape=list(kernel),
        strides=list(stride),
        dilations=list(dilation),
        pads=pads(sides),
    )


def average_pool(build: GraphBuilder, node: fx.Node) -> None:
    """Mean over windows.

    A border that counts is one of zeros, put there first; what else lies outside, where a size is rounded up, never
    counts.
    """
    module = build.module(node)
    assert isinstance(module, nn.AvgPool2d)
    if module.divisor_override is not None:
        raise build.error(node, "has a divisor of its own")
    kernel, stride, border = map(_pair, (module.kernel_size, module.stride, module.padding))
    source, size = build.read(node), build.input_shape(node)[2:]
    if module.count_include_pad:
        sides = (border[0], border[0]), (border[1], border[1])
        source = pad(build, node, source, sides, 0.0, "padded")
        size, border = tuple(length + 2 * width for length, width in zip(size, border, strict=True)), (0, 0)
    outside = _reached(build, node, size, kernel, stride, border)
    build.values[node] = build.step(
        node, "AveragePool", [source], kernel_shape=list(kernel), strides=list(stride), pads=pads(outside)
    )


def _reached(
    build: GraphBuilder, node: fx.Node, size: Shape, spans: Shape, stride: tuple[int, int], border: tuple[int, int]
) -> Sides:
    """The border that the windows of a node's output reach, above as wide as asked for; spans: of one window."""
    outputs = build.shapes[node][2:]
    down, across = (
        (first, max(0, (count - 1) * step + span - length - first))
        for first, count, step, span, length in zip(border, outputs, stride, spans, size, strict=True)
    )
    return down, across


def blur_pool(build: GraphBuilder, node: fx.Node) -> None:
    """The binomial filter, as a depthwise convolution."""
    module, shape = build.module(node), build.input_shape(node)
    assert isinstance(module, BlurPool2d)
    if isinstance(module.padding, str):
        sides = same_sides(shape, 3, module.stride)
    else:
        sides = ((module.padding, module.padding),) * 2
    channels, row = shape[1], np.array([0.25, 0.5, 0.25], np.float32)
    weight = np.broadcast_to(np.outer(row, row), (channels, 1, 3, 3))
    inputs = [build.read(node), build.shared(f"binomial {channels}", weight)]
    strides = [module.stride] * 2
    build.values[node] = build.step(node, "Conv", inputs, strides=strides, group=channels, pads=pads(sides))


def global_average_pool(build: GraphBuilder, node: fx.Node) -> None:
    """Mean over the whole map."""
    _global_pool(build, node, "GlobalAveragePool")


def global_max_pool(build: GraphBuilder, node: fx.Node) -> None:
    """Maximum over the whole map."""
    _global_pool(build, node, "GlobalMaxPool")


def _global_pool(build: GraphBuilder, node: fx.Node, kind: str) -> None:
    if build.shapes[node][2:] != (1, 1):
        raise build.error(node, "pools to more than one place")
    build.values[node] = build.step(node, kind, [build.read(node)])
