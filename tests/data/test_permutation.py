"""seeded_permutation: an order that is the same everywhere."""

from __future__ import annotations

import numpy as np

from everbit.data.permutation import seeded_permutation


def test_order_is_pinned() -> None:
    """The very numbers: a change of them would change every published stream."""
    assert seeded_permutation(10, 0).tolist() == [0, 8, 9, 3, 7, 5, 1, 2, 6, 4]
    assert seeded_permutation(0, 0).tolist() == []


def test_seed_and_purpose_both_count() -> None:
    orders = {
        tuple(seeded_permutation(30, *key).tolist())
        for key in [(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 1, 2), (2**32,), (2**32, 1)]
    }
    assert len(orders) == 8


def test_every_position_is_equally_likely() -> None:
    first = [int(seeded_permutation(5, seed)[0]) for seed in range(2000)]
    assert np.abs(np.bincount(first, minlength=5) - 400).max() < 5 * np.sqrt(2000 * 0.2 * 0.8)
