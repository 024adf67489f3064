"""V24's Table 1: parameters behind the cut, its figures beside ours, counted on the zoo's modules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from everbit.nn.binary import BinaryWeight
from everbit.zoo.cuts import NETWORKS
from everbit.zoo.network_statistics import NetworkStatistics
from everbit.zoo.registry import build
from everbit.zoo.statistics import LayerStatistics

UNITS = {"M": 10**6, "K": 10**3}

NO_CONVENTION = (
    "all that the other rows count (gamma, beta and both statistics of every batch norm behind the cut, and the head) "
    "comes to less, and no way of counting that fits the other rows gives the paper's figure"
)


@dataclass(frozen=True)
class Row:
    """One row of the table.

    cut: the module whose output is the latent. binary, other: the paper's figures. reason: why `other` does not
    reproduce, empty where all does.
    """

    network: str
    stem: str
    classes: int
    cut: str
    binary: str
    other: str
    reason: str = ""


ROWS = (
    Row("birealnet18", "cifar", 10, "stage4.block1", "7.0M", "19K", NO_CONVENTION),
    Row("birealnet18", "cifar", 10, "stage3.block1", "10.1M", "28K", NO_CONVENTION),
    Row("reactnet18", "cifar", 10, "stage4.block1.add", "7.0M", "18K"),
    Row("reactnet18", "cifar", 10, "stage3.block4.add", "8.3M", "24K"),
    Row("vgg_small", "cifar", 10, "block5.conv", "2.3M", "86K"),
    Row("quicknet", "imagenet", 50, "transition3.blur", "9.5M", "36K"),
    Row("quicknet", "imagenet", 50, "transition2.blur", "11.9M", "43K"),
    Row("quicknet_large", "imagenet", 50, "transition3.blur", "14.2M", "40K"),
    Row("quicknet_large", "imagenet", 50, "transition2.blur", "21.3M", "56K"),
)
"""Heads have the 10 classes of CIFAR-10, or the 50 of CORe50."""

PAPER_CONVENTION = (
    "binary: binary weights and real 1x1 convolutions; other: all else behind the cut, four numbers a batch-norm "
    "channel, filters of blur pools, the head"
)
EXACT_CONVENTION = (
    "binary: weights of one bit; other: all else that learns; constant: what does not, statistics of batch norms and "
    "filters of blur pools"
)


def reproduces(figure: str, count: int) -> bool:
    """Whether a count is the paper's figure, such as "9.5M", rounded or cut off: within one unit of its last digit."""
    digits, unit = figure[:-1], UNITS[figure[-1]]
    last: float = unit / 10 ** len(digits.partition(".")[2])
    return abs(count - float(digits) * unit) < last


def _by_the_paper(network: nn.Module, layers: list[LayerStatistics]) -> dict[str, int]:
    counts = {"binary": 0, "other": 0}
    for layer in layers:
        module = network.get_submodule(layer.name) if layer.parameters else None
        pointwise = isinstance(module, nn.Conv2d) and module.kernel_size == (1, 1)
        as_binary = pointwise or isinstance(module, BinaryWeight)
        counts["binary" if as_binary else "other"] += sum(layer.parameters.values()) + layer.folded
    return counts


def _exactly(layers: list[LayerStatistics]) -> dict[str, int]:
    binary = sum(layer.parameters.get(1, 0) for layer in layers)
    trained = sum(layer.trainable for layer in layers)
    stored = sum(sum(layer.parameters.values()) + layer.folded for layer in layers)
    return {"binary": binary, "other": trained - binary, "constant": stored - trained}


def table1() -> dict[str, Any]:
    """Every row: the paper's figures, our counts in its convention, and the exact ones."""
    rows = []
    for row in ROWS:
        with torch.device("meta"):
            network = build(row.network, classes=row.classes, stem=row.stem)
        statistics = NetworkStatistics(network, NETWORKS[row.network].stems[row.stem])
        layers = statistics.behind(row.cut)
        ours = _by_the_paper(network, layers)
        rows.append(
            {
                "network": row.network,
                "cut": row.cut,
                "latent_shape": list(statistics.shape(row.cut)),
                "classes": row.classes,
                "paper": {"binary": row.binary, "other": row.other},
                "paper_convention": ours,
                "exact": _exactly(layers),
                "reproduces": reproduces(row.binary, ours["binary"]) and reproduces(row.other, ours["other"]),
                "reason": row.reason or None,
            }
        )
    conventions = {"paper_convention": PAPER_CONVENTION, "exact": EXACT_CONVENTION}
    return {"table": "V24, Table 1: parameters behind the cut", "conventions": conventions, "rows": rows}
