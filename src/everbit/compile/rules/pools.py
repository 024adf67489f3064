"""Pools. Most keep the numbers of their input, also the exact sums of a binary convolution."""

from __future__ import annotations

from dataclasses import replace

from torch import fx, nn

from everbit.compile.lowering import Border, Lowering, named_scale, pair
from everbit.compile.program import Tensor
from everbit.compile.rules.windows import Lengths, same_border, window
from everbit.compile.trace import module_path
from everbit.nn.windows import BlurPool2d

INSIDE_ONLY_KERNEL = 15  # largest window that leaves out of its mean what lies outside the image


def _source(low: Lowering, node: fx.Node) -> tuple[int, Tensor]:
    source = low.source(node)
    if source in low.stands_for:
        low.stands_for[node] = low.stands_for[source]
        index = low.tensor[source]
        return index, low.builder.tensors[index]
    return low.read(node)


def _pool(low: Lowering, node: fx.Node, kind: str, attributes: dict[str, int]) -> None:
    index, source = _source(low, node)
    height, width, _ = low.shape(node)
    target = replace(source, height=height, width=width)
    low.tensor[node] = low.builder.add(kind, module_path(node), (index,), target, attributes=attributes)


def _square(low: Lowering, node: fx.Node, kernel: Lengths) -> int:
    height, width = pair(kernel)
    if height != width:
        raise low.error(node, "has a window that is no square", "use one number for the kernel")
    return height


def average_pool(low: Lowering, node: fx.Node) -> None:
    """Mean over windows; places outside the image count or not, as the module says."""
    module = low.module(node)
    assert isinstance(module, nn.AvgPool2d)
    kernel = _square(low, node, module.kernel_size)
    top, left = pair(module.padding)
    attributes, value = window(
        low, node, _source(low, node)[1], (kernel, kernel), module.stride, Border(top, left, 0.0)
    )
    padded = top > 0 or left > 0
    inside_only = (padded and not module.count_include_pad) or (module.ceil_mode and not padded)
    if value != 0 or module.divisor_override is not None:
        raise low.error(node, "has a border of its own kind or a divisor of its own", "pad with 0, and take the mean")
    if module.ceil_mode and ((padded and module.count_include_pad) or low.source(node) in low.pending_border):
        raise low.error(node, "rounds its size up and counts its border", "use ceil_mode or count_include_pad alone")
    if inside_only and kernel > INSIDE_ONLY_KERNEL:
        raise low.error(node, f"has a window of more than {INSIDE_ONLY_KERNEL}", "let it count its border")
    _pool(low, node, "average_pool", {"kernel": kernel, "inside_only": int(inside_only), **attributes})


def max_pool(low: Lowering, node: fx.Node) -> None:
    """Maximum over windows, which may overlap."""
    module = low.module(node)
    assert isinstance(module, nn.MaxPool2d)
    kernel = _square(low, node, module.kernel_size)
    top, left = pair(module.padding)
    border = Border(top, left, float("-inf"))
    attributes, value = window(low, node, _source(low, node)[1], (kernel, kernel), module.stride, border)
    if value != float("-inf"):
        raise low.error(node, f"reads a border of {value:g}, which may win", "pad with -inf, or in the pool itself")
    _pool(low, node, "max_pool", {"kernel": kernel, **attributes})


def blur_pool(low: Lowering, node: fx.Node) -> None:
    """The binomial filter."""
    module, source = low.module(node), _source(low, node)[1]
    assert isinstance(module, BlurPool2d)
    if isinstance(module.padding, str):
        border = same_border(source, (3, 3), module.stride, 0.0)
    else:
        border = Border(module.padding, module.padding, 0.0)
    _pool(low, node, "blur_pool", window(low, node, source, (3, 3), module.stride, border)[0])


def _one_place(low: Lowering, node: fx.Node, output_size: object) -> None:
    if output_size not in (1, (1, 1)):
        kind = type(low.module(node)).__name__
        raise low.error(node, "pools to more than one place", f"use {kind}(1)")


def global_average_pool(low: Lowering, node: fx.Node) -> None:
    """Mean over the whole map."""
    module = low.module(node)
    assert isinstance(module, nn.AdaptiveAvgPool2d)
    _one_place(low, node, module.output_size)
    index, source = low.read(node)
    target = low.activation(node)
    real = source.scale / (source.height * source.width * target.scale)
    low.tensor[node] = low.builder.add(
        "global_average_pool", module_path(node), (index,), target, attributes=named_scale("multiplier", real)
    )


def global_max_pool(low: Lowering, node: fx.Node) -> None:
    """Maximum over the whole map."""
    module = low.module(node)
    assert isinstance(module, nn.AdaptiveMaxPool2d)
    _one_place(low, node, module.output_size)
    _pool(low, node, "global_max_pool", {})
