"""SplitMix64 as the selftest draws from it (engine/selftest/room.h), and its digest (engine/digest.h)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reference.fixed_point import Integers, Scale, int64

Words = NDArray[np.uint64]
STEP = 0x9E3779B97F4A7C15
FILLS = ("random", "lowest", "highest", "ends")


def mix64(words: Words) -> Words:
    """SplitMix64's output function, of every word."""
    z = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def top(bits: int) -> int:
    """The largest integer of `bits` bits."""
    return int(2 ** (bits - 1)) - 1


class Draws:
    """One SplitMix64 and the fill of the numbers it makes; `fill` may change between draws."""

    def __init__(self, seed: int, fill: str = "random") -> None:
        self.state, self.fill = seed, fill

    def words(self, count: int) -> Words:
        """The next `count` outputs."""
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(STEP)
        self.state, start = (self.state + count * STEP) % 2**64, np.uint64(self.state)
        return mix64(start + steps)

    def numbers(self, count: int, low: int, high: int) -> Integers:
        """`count` integers in [low, high] by the fill."""
        words = self.words(count)
        if self.fill == "lowest":
            return np.full(count, low, np.int64)
        if self.fill == "highest":
            return np.full(count, high, np.int64)
        if self.fill == "ends":
            return np.where(words % np.uint64(2) == 0, low, high)
        return int64(words % np.uint64(high - low + 1)) + low

    def number(self, low: int, high: int) -> int:
        """One integer in [low, high] by the fill."""
        return int(self.numbers(1, low, high)[0])

    def below(self, bound: int) -> int:
        """A number in [0, bound), whatever the fill."""
        return int(self.words(1)[0]) % bound

    def integers(self, count: int, bits: int, symmetric: bool) -> Integers:
        """`count` integers of `bits` bits."""
        return self.numbers(count, -top(bits) if symmetric else -top(bits) - 1, top(bits))

    def bit_words(self, count: int) -> Words:
        """`count` words: random, all ones for "highest", else 0."""
        words = self.words(count)
        if self.fill == "random":
            return words
        return np.full(count, 2**64 - 1 if self.fill == "highest" else 0, np.uint64)

    def scale(self, least: int, most: int) -> Scale:
        """A normalized Scale of either sign with an exponent in [least, most]."""
        negative = self.below(2) == 1
        mantissa = self.number(2**30, 2**31 - 1)
        return Scale(-mantissa if negative else mantissa, least + self.below(most - least + 1))


class Digest:
    """The mix64 sum of a sequence of integers."""

    def __init__(self) -> None:
        self.count, self.sum = 0, 0

    def add(self, values: ArrayLike) -> None:
        """Appends integers that fit 64 bits, in row-major order."""
        array = np.asarray(values)
        words = (array if array.dtype == np.uint64 else array.astype(np.int64).view(np.uint64)).ravel()
        places = np.arange(self.count + 1, self.count + len(words) + 1, dtype=np.uint64) * np.uint64(STEP)
        self.count += len(words)
        self.sum = (self.sum + int(mix64(words + places).sum(dtype=np.uint64))) % 2**64

    @property
    def value(self) -> int:
        return int(mix64(np.array([(self.count + self.sum) % 2**64], np.uint64))[0])


class ProgramNumbers:
    """What tests/reference/program_builder.py asks of NumPy's Generator, from SplitMix64.

    NumPy may change its streams from version to version; these numbers are the same everywhere, by integers and exact
    products alone.
    """

    def __init__(self, seed: int) -> None:
        self._draws = Draws(seed)

    def _words(self, size: int | Sequence[int] | None) -> Any:
        shape = () if size is None else (size,) if isinstance(size, int) else tuple(size)
        return self._draws.words(int(np.prod(shape, dtype=int))).reshape(shape)

    def random(self, size: int | Sequence[int] | None = None) -> Any:
        """Reals in [0, 1), multiples of 2^-53."""
        return (self._words(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def integers(
        self, low: int, high: int | None = None, size: int | Sequence[int] | None = None, endpoint: bool = False
    ) -> Any:
        """Integers in [low, high), or in [0, low); `endpoint`: the end is one of them."""
        first, end = (0, low) if high is None else (low, high)
        return (self._words(size) % np.uint64(end - first + endpoint)).astype(np.int64) + first

    def uniform(self, low: float, high: float, size: int | Sequence[int] | None = None) -> Any:
        """Reals in [low, high)."""
        return low + (high - low) * self.random(size)

    def normal(self, mean: float, deviation: float, size: int | Sequence[int] | None = None) -> Any:
        """Nearly normal reals: the sum of twelve uniform ones."""
        units = sum((self._words(size) >> np.uint64(16)).astype(np.int64) for _ in range(12))
        return mean + deviation * ((np.asarray(units) - 6 * 2**48).astype(np.float64) * 2.0**-48)

    def choice(self, options: ArrayLike, size: int | Sequence[int] | None = None) -> Any:
        """Options, every one equally likely."""
        array = np.asarray(options)
        return array[self.integers(len(array), size=size)]


def program_numbers(seed: int) -> np.random.Generator:
    """ProgramNumbers under the type that the builder asks for."""
    return cast(np.random.Generator, ProgramNumbers(seed))
