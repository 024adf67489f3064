"""A program: the layers of a network as data, in integers, cut into a frozen and a learnable part.

Python writes it, the engine runs it. `everbit.compile.image` turns it into the bytes the engine reads;
`everbit.formats.model_file` keeps it in a safetensors file. Needs NumPy only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Tensor:
    """One activation, of shape [batch, height, width, channels].

    bits: 1 (packed signs), 8, 16 or 32. zero_point: the integer that stands for the real 0; 0 for 1 and 32 bits and for
    raw values, the 16-bit sums of convolutions.
    scale: the real value of one step, real = scale * (q - zero_point). The engine does not read it; float baselines do.
    """

    height: int
    width: int
    channels: int
    bits: int
    zero_point: int = 0
    scale: float = 1.0


def tensor_bits(tensors: Sequence[Tensor], indices: Iterable[int]) -> tuple[int, ...]:
    """Bits of tensors by their indices; one that does not exist is left out, for the engine to refuse."""
    return tuple(tensors[index].bits for index in indices if 0 <= index < len(tensors))


@dataclass(frozen=True)
class Parameter:
    """A trainable tensor (docs/arithmetic.md, section 2).

    values: int32 at 32 bits, any shape; the real value is values * 2^(range_exponent - 31). For the binary weights of a
    convolution: the packed bits live in the layer's array `bits`, and values is one number, the magnitude every latent
    weight starts from. range_exponent: the real range is (-2^range_exponent, 2^range_exponent).
    """

    values: NDArray[np.int32]
    range_exponent: int


@dataclass(frozen=True)
class Layer:
    """One step of the program; `kind` is a key of `everbit.compile.operations.OPERATIONS`, which names the rest.

    inputs, output: indices into `Program.tensors`. name: the module's path in the network it came from.
    """

    kind: str
    name: str
    inputs: tuple[int, ...]
    output: int
    attributes: dict[str, int] = field(default_factory=dict)
    arrays: dict[str, NDArray[np.generic]] = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)


@dataclass(frozen=True)
class Classifier:
    """Classes that a program knows before it learns: the first rows of its head (docs/arithmetic.md, section 3).

    labels: one hashable label a class. weights: int32 [classes, features] at 32 bits, as a Parameter of the head's
    range exponent. bias: int32 [classes] in units of 2^-16; it never learns. past: int32 [classes], at least 1: the
    patterns a row stands for, which CWR* weighs it by when the class is seen again.
    """

    labels: tuple[Hashable, ...]
    weights: NDArray[np.int32]
    bias: NDArray[np.int32]
    past: NDArray[np.int32]


@dataclass(frozen=True)
class Head:
    """Constants of the linear head (docs/arithmetic.md, sections 3 and 4).

    range_exponent: of the head's weights. logit: Scale of S * 2^range_exponent * 2^16. feature: Scale of S, with S the
    scale of the last tensor. classifier: rows that a learner starts from; without it all of them start from 0.
    """

    range_exponent: int
    logit: tuple[int, int]
    feature: tuple[int, int]
    classifier: Classifier | None = None

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """Labels of the classes that the program knows."""
        return () if self.classifier is None else self.classifier.labels


@dataclass(frozen=True)
class Program:
    """A compiled network.

    layers run in order; layer 0 is the input; exactly one layer is the `latent`, and what stands after it is learnable.
    The last layer's output holds the features of the head. metadata: JSON-able facts about where the program came from.
    """

    tensors: tuple[Tensor, ...]
    layers: tuple[Layer, ...]
    head: Head
    metadata: dict[str, object] = field(default_factory=dict)

    @property
    def latent_index(self) -> int:
        """Index of the latent layer."""
        return next(index for index, layer in enumerate(self.layers) if layer.kind == "latent")

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """Height, width, channels of the images it takes."""
        tensor = self.tensors[self.layers[0].output]
        return tensor.height, tensor.width, tensor.channels

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        """Height, width, channels at the cut."""
        tensor = self.tensors[self.layers[self.latent_index].output]
        return tensor.height, tensor.width, tensor.channels

    @property
    def features(self) -> int:
        """Number of inputs of the head."""
        tensor = self.tensors[self.layers[-1].output]
        return tensor.height * tensor.width * tensor.channels

    @property
    def q_f(self) -> int:
        """Bits of the forward activations: those of the features (at the cut may stand an image, sums or signs)."""
        return self.tensors[self.layers[-1].output].bits

    def layer_bits(self, layer: Layer) -> tuple[int, ...]:
        """Bits of the tensors that a layer reads and writes."""
        return tensor_bits(self.tensors, (*layer.inputs, layer.output))

    @property
    def latent_bytes(self) -> int:
        """Bytes of one stored latent."""
        height, width, channels = self.latent_shape
        return (height * width * channels * self.latent_bits + 7) // 8

    @property
    def latent_bits(self) -> int:
        """Bits of one stored latent value."""
        return self.layers[self.latent_index].attributes["bits"]
