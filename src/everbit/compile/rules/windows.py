"""Windows of convolutions and pools: kernel, stride and border of a PyTorch layer as the engine takes them."""

from __future__ import annotations

from collections.abc import Callable

from torch import fx, nn

from everbit.compile.lowering import Border, Lowering, pair
from everbit.compile.program import Tensor
from everbit.nn.binary import BinaryConv2d
from everbit.nn.windows import SamePad2d, same_padding

Lengths = int | tuple[int, ...]


def same_border(source: Tensor, kernel: tuple[int, int], stride: int, value: float) -> Border:
    """The border of TensorFlow's "same" around a map."""
    sides = (source.height, kernel[0]), (source.width, kernel[1])
    top, left = (same_padding(size, length, stride)[0] for size, length in sides)
    return Border(top, left, value)


def binary_border(source: Tensor, module: BinaryConv2d) -> Border:
    """The border of a binary convolution's own padding."""
    if isinstance(module.padding, str):
        kernel = (module.kernel_size, module.kernel_size)
        return same_border(source, kernel, module.stride, float(module.pad_value))
    return Border(module.padding, module.padding, float(module.pad_value))


def window(
    low: Lowering, node: fx.Node, source: Tensor, kernel: tuple[int, int], stride: Lengths, border: Border
) -> tuple[dict[str, int], float]:
    """Attributes stride, padding and skew of a layer with a border of its own, and the value of its border.

    A padding in front of the layer has left it another: one of the two must be empty.
    """
    down, across = pair(stride)
    if down != across or pair(getattr(low.module(node), "dilation", 1)) != (1, 1):
        raise low.error(node, "has different strides by axis, or dilation", "use one number for both, and no dilation")
    before = low.pending_border.get(low.source(node))
    if before is not None:
        if border.top or border.left:
            raise low.error(node, "pads what is padded already", "pad once")
        border = before
    height, width, _ = low.shape(node)
    for size, out, length, first in (
        (source.height, height, kernel[0], border.top),
        (source.width, width, kernel[1], border.left),
    ):
        if first >= length or (out - 1) * down - first >= size:
            raise low.error(node, "has windows that lie wholly in the border", "pad by less than the kernel's size")
    return {"stride": down, "padding": border.top, "skew": border.left - border.top}, border.value


def kernel_attributes(kernel: tuple[int, int]) -> dict[str, int]:
    """Attributes of a convolution's kernel."""
    return {"kernel_height": kernel[0], "kernel_width": kernel[1]}


def _pad(low: Lowering, node: fx.Node, border: Border) -> None:
    """Leaves a border to the window behind it."""
    for user in node.users:
        if not isinstance(low.module(user), (nn.Conv2d, BinaryConv2d, nn.AvgPool2d, nn.MaxPool2d)):
            raise low.error(
                node, "pads for a layer that has no window", "put it right in front of a convolution or a pool"
            )
    if any((user in low.learnable) != (node in low.learnable) for user in node.users):
        raise low.error(node, "is no place for a cut: its border belongs to the layer behind it", "cut in front of it")
    if low.source(node) in low.pending_border:
        raise low.error(node, "pads what is padded already", "pad once")
    low.tensor[node] = low.read(node, signs=True)[0]
    low.pending_border[node] = border


def same_pad(low: Lowering, node: fx.Node) -> None:
    """TensorFlow's "same"."""
    module = low.module(node)
    assert isinstance(module, SamePad2d)
    kernel = (module.kernel_size, module.kernel_size)
    _pad(low, node, same_border(low.read(node, signs=True)[1], kernel, module.stride, module.value))


def constant_pad(low: Lowering, node: fx.Node) -> None:
    """A border with its own width on each side; below and right, the output's size says how wide."""
    module = low.module(node)
    assert isinstance(module, (nn.ZeroPad2d, nn.ConstantPad2d))
    left, right, top, bottom = module.padding
    if min(left, right, top, bottom) < 0:
        raise low.error(node, "cuts the map", "pad by 0 or more")
    _pad(low, node, Border(top, left, float(module.value)))


PAD_RULES: dict[type[nn.Module], Callable[[Lowering, fx.Node], None]] = {
    SamePad2d: same_pad,
    nn.ZeroPad2d: constant_pad,
    nn.ConstantPad2d: constant_pad,
}
