"""How files keep a user's labels: text, numbers and tuples of them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from everbit.errors import LabelError

_SAVED_TYPES = (str, int, float, bool, type(None))


def label_to_json(label: Hashable) -> object:
    """JSON of a label; tuples become {"tuple": [..]} so that they come back as tuples.

    Raises LabelError for a label that is not text, a number or a tuple of them.
    """
    if isinstance(label, tuple):
        return {"tuple": [label_to_json(part) for part in label]}
    if isinstance(label, _SAVED_TYPES):
        return label
    raise LabelError(
        f"label {label!r} of type {type(label).__name__} cannot be saved: use text, numbers or tuples of them"
    )


def label_from_json(label: Any) -> Hashable:
    """The inverse of `label_to_json`."""
    if isinstance(label, dict):
        return tuple(label_from_json(part) for part in label["tuple"])
    decoded: Hashable = label
    return decoded
