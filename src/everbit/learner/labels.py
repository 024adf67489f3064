"""A user's labels: their order of first sight, and how a file keeps them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everbit.errors import LabelError

_SAVED_TYPES = (str, int, float, bool, type(None))


def index_labels(
    labels: Sequence[Hashable], known: Sequence[Hashable], capacity: int
) -> tuple[NDArray[np.int32], list[Hashable]]:
    """The index of each label, int32 [N], and all labels known from now on, in the order they were first seen.

    known: labels seen before; capacity: most labels there may be. Raises LabelError where there are more.
    """
    extended = list(known)
    position = {label: index for index, label in enumerate(extended)}
    for label in labels:
        if label not in position:
            position[label] = len(extended)
            extended.append(label)
    if len(extended) > capacity:
        raise LabelError(
            f"{len(extended)} classes are too many for this learner, made for {capacity}: "
            f"start one with Settings(classes={len(extended)}) or more"
        )
    return np.array([position[label] for label in labels], np.int32), extended


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
