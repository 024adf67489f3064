"""Means of the latent codes of each class, kept as integer sums.

The distance of codes x to the mean S / n of n patterns with the sum S is |x|^2 - score, with

    score = 2 (x . S) / n - (S . S) / n^2

Both products are exact: they and every sum on the way stay below 2^53 and 2^63 (`most_patterns`). What follows is
float64, one rounding an operation, so that a score depends neither on the machine nor on the batch.
"""

from __future__ import annotations

from math import isqrt

import numpy as np
from numpy.typing import NDArray


class ClassMeans:
    """Sums over the patterns of each class, of codes of `bits` bits, 1 to 8.

    sums: uint32 [classes, values], of each value. squares: int64 [classes], of |x|^2. counts: int64 [classes],
    patterns.
    """

    def __init__(self, classes: int, values: int, bits: int) -> None:
        self.top: int = 2**bits - 1
        self.sums: NDArray[np.uint32] = np.zeros((classes, values), np.uint32)
        self.squares: NDArray[np.int64] = np.zeros(classes, np.int64)
        self.counts: NDArray[np.int64] = np.zeros(classes, np.int64)

    @property
    def bytes(self) -> int:
        """Bytes of all sums and counts."""
        return int(self.sums.nbytes + self.squares.nbytes + self.counts.nbytes)

    @property
    def most_patterns(self) -> int:
        """Most patterns of a class for which all sums are exact."""
        values, top = self.sums.shape[1], self.top
        products = (2**53 - 1) // (values * top * top)
        squares = isqrt((2**63 - 1) // values) // top
        return int(min(products, squares, (2**32 - 1) // top))

    def copy(self) -> ClassMeans:
        """The same sums, to be changed on their own."""
        other = object.__new__(ClassMeans)
        other.top = self.top
        other.sums, other.squares, other.counts = self.sums.copy(), self.squares.copy(), self.counts.copy()
        return other

    def add(self, codes: NDArray[np.uint8], classes: NDArray[np.int32]) -> None:
        """Adds patterns: codes [N, values], class indices [N]."""
        for pattern, index in zip(codes, classes.tolist(), strict=True):
            self.sums[index] += pattern
        np.add.at(self.squares, classes, np.einsum("nv,nv->n", codes, codes, dtype=np.int64))
        np.add.at(self.counts, classes, 1)

    def scores(self, codes: NDArray[np.uint8], known: int) -> NDArray[np.float64]:
        """float64 [N, known] of codes [N, values] for the first `known` classes; -inf for one without patterns."""
        sums, counts = self.sums[:known], self.counts[:known].astype(np.float64)
        seen = counts > 0
        scores = np.full((len(codes), known), -np.inf)
        products = codes.astype(np.float64) @ sums[seen].astype(np.float64).T
        scores[:, seen] = 2 * products / counts[seen] - self._square_sums(sums[seen]) / counts[seen] ** 2
        return scores

    def variance(self, known: int) -> float:
        """Mean squared distance of a value from its class's mean, with one more pattern at half the range: never 0."""
        seen = np.flatnonzero(self.counts[:known])
        counts = self.counts[seen].astype(np.float64)
        within = self.squares[seen] - self._square_sums(self.sums[seen]) / counts
        values = self.sums.shape[1]
        return float((within.sum() + values * self.top**2 / 4) / (values * (counts.sum() + 1)))

    @staticmethod
    def _square_sums(sums: NDArray[np.uint32]) -> NDArray[np.float64]:
        wide = sums.astype(np.int64)
        products: NDArray[np.float64] = np.einsum("cv,cv->c", wide, wide).astype(np.float64)
        return products


def unpack_codes(stored: NDArray[np.uint8], values: int, bits: int) -> NDArray[np.uint8]:
    """Codes uint8 [N, values] of stored latents uint8 [N, bytes], `bits` bits a value, 1 to 8, lowest bit first."""
    lanes = np.unpackbits(stored, axis=1, count=values * bits, bitorder="little").reshape(len(stored), values, bits)
    if bits == 1:
        return lanes[:, :, 0]
    weights = (1 << np.arange(bits)).astype(np.uint8)
    codes: NDArray[np.uint8] = (lanes * weights).sum(axis=2, dtype=np.uint8)
    return codes
