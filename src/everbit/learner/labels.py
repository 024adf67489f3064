"""A user's labels in the order of their first sight."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from everbit.errors import LabelError


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
