"""What a network or a program consists of, layer by layer: numbers of parameters by bits, and of multiply-adds.

Parameters are counted as a network runs: two numbers for each channel of a batch norm, nine for each channel of a blur
pool, as larq counts them. A multiply-add is binary where both of its factors are single bits. Needs no torch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Shape = tuple[int, int, int]  # height, width, channels


@dataclass(frozen=True)
class LayerStatistics:
    """One layer.

    input_bits: of one value it reads. parameters: how many by the bits of each. trainable: how many of them are
    trained. constants: how many are the same in every network (a blur pool's filter). folded: what a batch norm stores
    beside them, two numbers a channel. learnable: of a program, whether it stands behind the cut.
    """

    name: str
    kind: str
    input_bits: int
    output_shape: Shape
    parameters: dict[int, int] = field(default_factory=dict)
    trainable: int = 0
    constants: int = 0
    folded: int = 0
    binary_macs: int = 0
    other_macs: int = 0
    learnable: bool | None = None

    @property
    def bytes(self) -> float:
        """Of all parameters, packed."""
        return sum(bits * count for bits, count in self.parameters.items()) / 8


@dataclass(frozen=True)
class Totals:
    """Sums over layers; `stored` counts a batch norm's channel four times, and no constants."""

    parameters: dict[int, int]
    trainable: int
    stored: int
    bytes: float
    binary_macs: int
    other_macs: int

    @property
    def count(self) -> int:
        """All parameters."""
        return sum(self.parameters.values())

    @property
    def binary(self) -> int:
        """Parameters of one bit."""
        return self.parameters.get(1, 0)

    @property
    def float_bytes(self) -> int:
        """What all parameters would take in 32 bits each."""
        return 4 * self.count

    @property
    def compression(self) -> float:
        """How many times smaller the parameters are than in 32 bits; 1 without any."""
        return self.float_bytes / self.bytes if self.bytes else 1.0

    @property
    def macs(self) -> int:
        """All multiply-adds of one image."""
        return self.binary_macs + self.other_macs

    @property
    def binary_ratio(self) -> float:
        """The fraction of multiply-adds that is binary; 0 without any."""
        return self.binary_macs / self.macs if self.macs else 0.0


def totals(layers: Iterable[LayerStatistics]) -> Totals:
    """Sums over layers."""
    layers = list(layers)
    parameters: Counter[int] = Counter()
    for layer in layers:
        parameters.update(layer.parameters)
    return Totals(
        parameters=dict(sorted(parameters.items())),
        trainable=sum(layer.trainable for layer in layers),
        stored=parameters.total() + sum(layer.folded - layer.constants for layer in layers),
        bytes=sum(layer.bytes for layer in layers),
        binary_macs=sum(layer.binary_macs for layer in layers),
        other_macs=sum(layer.other_macs for layer in layers),
    )


def statistics_json(layers: Iterable[LayerStatistics]) -> dict[str, Any]:
    """Layers and totals as JSON."""
    layers = list(layers)
    total = totals(layers)
    return {
        "layers": [
            {
                "name": layer.name,
                "kind": layer.kind,
                "input_bits": layer.input_bits,
                "output_shape": list(layer.output_shape),
                "parameters_by_bits": layer.parameters,
                "bytes": layer.bytes,
                "macs": {"binary": layer.binary_macs, "other": layer.other_macs},
                **({} if layer.learnable is None else {"learnable": layer.learnable}),
            }
            for layer in layers
        ],
        "totals": {
            "parameters": total.count,
            "parameters_by_bits": total.parameters,
            "trainable_parameters": total.trainable,
            "non_trainable_parameters": total.count - total.trainable,
            "stored_parameters": total.stored,
            "bytes": total.bytes,
            "float32_bytes": total.float_bytes,
            "compression": total.compression,
            "macs": {"binary": total.binary_macs, "other": total.other_macs},
            "binary_macs_ratio": total.binary_ratio,
        },
    }
