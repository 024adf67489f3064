"""Bytes and numbers as C arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

LINE = 140


def words_of(content: bytes) -> Iterator[str]:
    """Lines of a C initializer: 64-bit words, little-endian, the last filled up with zeros."""
    padded = content.ljust(-(-len(content) // 8) * 8, b"\0")
    words = np.frombuffer(padded, "<u8").tolist()
    return _lines(f"{word:d}" if word < 10 else f"{word:#x}" for word in words)


def rows_of(rows: NDArray[np.uint8]) -> Iterator[str]:
    """Lines of a C initializer: one braced row for each row of bytes [N, M]."""
    for row in rows:
        yield "    {"
        yield from (f"    {line}" for line in _lines(map(str, row.tolist())))
        yield "    },"


def numbers_of(numbers: Iterable[int]) -> str:
    """A C initializer of a few numbers, braces included."""
    return "{" + ", ".join(map(str, numbers)) + "}"


def text_of(text: str) -> str:
    """A C string literal. What is not plain ASCII, and what C would read otherwise, is written as octal escapes."""
    plain = set(range(32, 127)) - set(b'"\\?')
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in text.encode()) + '"'


def _lines(words: Iterable[str]) -> Iterator[str]:
    line = "   "
    for word in words:
        if len(line) + len(word) + 2 > LINE:
            yield line
            line = "   "
        line += f" {word},"
    yield line
