"""Options that are whole numbers in a range."""

from __future__ import annotations

import operator
from typing import SupportsIndex

from everbit.errors import ConfigurationError

MOST_SEED = 2**64 - 1


def whole_number(name: str, value: object, least: int, most: int) -> int:
    """An option as an int. Raises ConfigurationError unless it is a whole number in its range."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex) or not least <= operator.index(value) <= most:
        raise ConfigurationError(f"{name} is {value!r}: choose a whole number from {least} to {most}")
    return operator.index(value)


def seed_number(value: object) -> int:
    """A seed as an int. Raises ConfigurationError unless it has at most 64 bits and no sign."""
    return whole_number("seed", value, 0, MOST_SEED)
