"""How much of a paper's protocol is run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Amount:
    """Training images of a class in the whole stream, and test images of a class, at most; None for all."""

    train: int | None = None
    test: int | None = None


@dataclass(frozen=True)
class Scale:
    """orders: class orders, seeds 0 to orders - 1. amounts: by data set, all images where it has none.

    measured: whether what takes minutes to measure is measured.
    """

    orders: int
    amounts: dict[str, Amount]
    measured: bool


SCALES = {
    "quick": Scale(
        1,
        {"cifar10": Amount(50, 50), "cifar100": Amount(8, 5), "coil": Amount(10, 6), "gtsrb": Amount(10, 10)},
        measured=False,
    ),
    "standard": Scale(
        3,
        {"cifar10": Amount(200, 200), "cifar100": Amount(30, 20), "coil": Amount(32), "gtsrb": Amount(40, 40)},
        measured=True,
    ),
    "full": Scale(5, {}, measured=True),
}
"""quick: minutes, for a look. standard: error bars within hours. full: the paper's protocol, all images."""
