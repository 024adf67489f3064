"""Windows of convolutions and pools: their size, stride and border in a TensorFlow Lite file."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import fx, nn

from everbit.formats.importers.tflite.builder import GraphBuilder
from everbit.formats.importers.tflite.file import Operator
from everbit.formats.importers.tflite.values import Border, Value
from everbit.nn.windows import SamePad2d, same_padding

SAME, VALID = 0, 1
MOST_SIDE = 4096
"""Largest kernel, stride or border that is read: larger ones come from damaged files."""


@dataclass(frozen=True)
class Window:
    """kernel: height, width. same: padded as TensorFlow's "same"; else not at all."""

    kernel: tuple[int, int]
    stride: int
    same: bool

    def outputs(self, size: int, axis: int) -> int:
        """Windows along an axis of `size` places."""
        if self.same:
            return -(-size // self.stride)
        return (size - self.kernel[axis]) // self.stride + 1

    def sides(self, value: Value) -> tuple[tuple[int, int], tuple[int, int]]:
        """Border above and below, left and right."""
        if not self.same:
            return (0, 0), (0, 0)
        return (
            same_padding(value.height, self.kernel[0], self.stride),
            same_padding(value.width, self.kernel[1], self.stride),
        )

    @property
    def square(self) -> int | None:
        """Length of a square kernel's side."""
        return self.kernel[0] if self.kernel[0] == self.kernel[1] else None


def window(
    build: GraphBuilder, operator: Operator, kernel: tuple[int, int], padding: int, strides: tuple[int, int]
) -> Window:
    """The window of an operator; its strides must be equal."""
    if padding not in (SAME, VALID) or not all(0 < length <= MOST_SIDE for length in (*kernel, *strides)):
        raise build.damaged(operator, f"has a window {list(kernel)} of stride {list(strides)} and padding {padding}")
    if strides[0] != strides[1]:
        raise build.unsupported(operator, f"has different strides by axis, {list(strides)}")
    return Window(kernel, strides[0], padding == SAME)


def result(build: GraphBuilder, operator: Operator, value: Value, over: Window, node: fx.Node, channels: int) -> Value:
    """What the windows over a value make."""
    height, width = over.outputs(value.height, 0), over.outputs(value.width, 1)
    if height < 1 or width < 1:
        raise build.damaged(operator, f"has a window larger than its map of {value.height}x{value.width}")
    return replace(value, node=node, height=height, width=width, channels=channels, real=None, border=None)


def bordered(
    build: GraphBuilder, operator: Operator, name: str, value: Value, over: Window, fill: float, node: fx.Node
) -> tuple[fx.Node, tuple[int, int]]:
    """The node whose windows a layer takes, with its border around it, and the padding left to the layer itself.

    fill: value of the border of "same". A layer of stride 1 and an odd kernel pads by itself: both sides are equal
    whatever the map's size.
    """
    if value.border is not None:
        padded = build.call(f"{name}_pad", nn.ConstantPad2d(value.border.sides, value.border.value), node)
        if over.same and any(over.sides(value)[0] + over.sides(value)[1]):
            raise build.unsupported(operator, "pads what is padded already")
        return padded, (0, 0)
    (top, bottom), (left, right) = over.sides(value)
    if not (top or bottom or left or right):
        return node, (0, 0)
    if over.stride == 1 and over.kernel[0] % 2 and over.kernel[1] % 2:
        return node, (over.kernel[0] // 2, over.kernel[1] // 2)
    if over.square is not None:
        return build.call(f"{name}_pad", SamePad2d(over.square, over.stride, fill), node), (0, 0)
    return build.call(f"{name}_pad", nn.ConstantPad2d((left, right, top, bottom), fill), node), (0, 0)


def pad_border(build: GraphBuilder, operator: Operator, fill: float) -> Border:
    """The border of a PAD operator around a map."""
    sides = build.integers(operator, 1)
    if len(sides) != 8 or not all(0 <= side <= MOST_SIDE for side in sides):
        raise build.damaged(operator, f"pads by {sides[:8]}")
    if any(sides[:2]) or any(sides[6:]):
        raise build.unsupported(operator, "pads batch or channels")
    top, bottom, left, right = sides[2:6]
    return Border(left, right, top, bottom, fill)
