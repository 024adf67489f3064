"""Random orders that depend on a seed alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def seeded_permutation(count: int, seed: int, *purpose: int) -> NDArray[np.int64]:
    """A uniformly random order of 0..count-1 that depends only on ``seed`` and ``purpose``, integers >= 0.

    Different purposes of one seed give unrelated orders. NumPy promises that the raw words of a bit generator never
    change but makes no such promise for ``Generator.permutation`` (NEP 19), so the order is the sorting order of one
    raw 64-bit word an element: the same on every machine and version.
    """
    words = np.random.Philox(np.random.SeedSequence(seed, spawn_key=purpose)).random_raw(count)
    return np.argsort(words, kind="stable").astype(np.int64)
