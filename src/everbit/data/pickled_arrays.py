"""NumPy arrays of numbers inside pickles, rebuilt as lists without calling what the pickle names."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

_NUMBERS = re.compile(r"[<>=|]?[biuf][1248]")


class Name(NamedTuple):
    """A name in a pickle: a word, not what it stands for."""

    module: str
    name: str


class Fillable:
    """What a pickle makes empty and fills afterwards."""

    def fill(self, state: Any) -> None:
        """Takes the content. Raises ValueError where it makes no sense."""
        raise NotImplementedError


class _Array(list[Any], Fillable):
    """An array as nested lists."""

    def fill(self, state: Any) -> None:
        _, shape, kind, by_column, content = state
        self[:] = _array(content, kind, shape, "F" if by_column else "C")


class _Kind(Fillable):
    """A dtype of numbers; the byte order comes with its content."""

    def __init__(self, text: str, *_: bool) -> None:
        if not isinstance(text, str) or not _NUMBERS.fullmatch(text):
            raise ValueError(f"an array of {text!r}, not of numbers")
        self.dtype = np.dtype(text)

    def fill(self, state: Any) -> None:
        if state[1] not in ("<", ">", "=", "|"):
            raise ValueError("an unknown byte order")
        self.dtype = self.dtype.newbyteorder(state[1])


def _array(content: bytes, kind: _Kind, shape: tuple[int, ...], order: Any) -> list[Any]:
    if not isinstance(kind, _Kind) or order not in ("C", "F"):
        raise ValueError("an array without a dtype or order")
    if not isinstance(shape, tuple) or not shape or (0 in shape and shape != (0,)):
        raise ValueError(f"an array of shape {shape!r}")
    values: list[Any] = np.frombuffer(content, kind.dtype).reshape(shape, order=order).tolist()
    return values


def _scalar(kind: _Kind, content: bytes) -> Any:
    return _array(content, kind, (1,), "C")[0]


def _encoded(text: str, encoding: str) -> bytes:
    if not isinstance(text, str) or encoding != "latin1":
        raise ValueError(f"bytes in the encoding {encoding!r}")
    return text.encode("latin-1")


CALLS: dict[tuple[str, str], Callable[..., Any]] = {
    ("_codecs", "encode"): _encoded,
    ("__builtin__", "bytes"): lambda: b"",
    ("numpy", "dtype"): _Kind,
    ("numpy", "ndarray"): lambda *_: _Array(),
    **{
        (f"numpy.{core}.{module}", name): make
        for core in ("core", "_core")
        for module, name, make in (
            ("multiarray", "_reconstruct", lambda *_: _Array()),
            ("multiarray", "scalar", _scalar),
            ("numeric", "_frombuffer", _array),
        )
    },
}
"""What each name makes that NumPy, or Python for bytes, writes; these are the only names read."""
