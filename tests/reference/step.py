"""A layer as the reference rules see it: its record, its tensors and the present state of its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from everbit.compile.program import Layer, Tensor
from reference.fixed_point import Gradient, Integers, Scale, int64
from reference.parameters import ParameterState, ParameterSum
from reference.windows import Window

BackwardResult = tuple[list[Gradient], dict[str, ParameterSum]]


@dataclass
class Step:
    """A layer with its tensors and the present state of its parameters."""

    layer: Layer
    sources: tuple[Tensor, ...]
    target: Tensor
    state: dict[str, ParameterState]

    def attribute_scale(self, name: str) -> Scale:
        """The Scale made of the attributes NAME_mantissa and NAME_exponent."""
        return Scale(self.layer.attributes[f"{name}_mantissa"], self.layer.attributes[f"{name}_exponent"])

    def array(self, name: str) -> Integers:
        return int64(self.layer.arrays[name])

    @property
    def window(self) -> Window:
        a = self.layer.attributes
        kernel = 3 if self.layer.kind == "blur_pool" else a.get("kernel", 0)
        height, width = a.get("kernel_height", kernel), a.get("kernel_width", kernel)
        top = a.get("padding", 0)
        left = top + a.get("skew", 0)
        return Window(height, width, a.get("stride", 0) or height, top, left, self.target.height, self.target.width)

    @property
    def wide(self) -> bool:
        """Whether one of its tensors has 32 bits."""
        return 32 in (self.target.bits, *(source.bits for source in self.sources))

    def raw(self, q: Integers) -> Integers:
        """q minus the zero point of the first input."""
        return q - self.sources[0].zero_point


def channel_sum(values: Integers) -> Integers:
    """Sum over the mini-batch and all places, [C]."""
    return int64(values.sum(axis=(0, 1, 2)))
