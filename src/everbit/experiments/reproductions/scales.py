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
        {"cifar10": Amount(60, 50), "cifar100": Amount(10, 5), "coil": Amount(12, 6), "gtsrb": Amount(12, 10)},
        measured=False,
    ),
    "standard": Scale(
        3,
        {"cifar10": Amount(300, 200), "cifar100": Amount(50, 20), "coil": Amount(), "gtsrb": Amount(60, 40)},
        measured=True,
    ),
    "full": Scale(5, {}, measured=True),
}
"""quick: minutes, for a look. standard: error bars within hours. full: the paper's protocol, all images."""
