"""Sizes in memory, for people."""

from __future__ import annotations

_UNITS = (("MB", 10**6, 2), ("KB", 10**3, 1))


def byte_size(count: int) -> str:
    """`count` bytes as text with its unit, such as "154.2 KB"; KB are 10^3 and MB 10^6 bytes."""
    for unit, size, digits in _UNITS:
        if count >= size:
            return f"{count / size:.{digits}f} {unit}"
    return f"{count} B"
