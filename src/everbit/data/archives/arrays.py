"""The arrays of an ``.npz`` data set (docs/data.md), and how they are stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everbit.whole_file import replacing

Arrays = dict[str, NDArray[Any]]

Maker = Callable[[Mapping[str, Path], Path], None]
"""Makes a data set's file or folder of its archives, by their file names: whole, or not at all."""


def stored(read: Callable[[Mapping[str, Path]], Arrays]) -> Maker:
    """What stores the arrays read of archives."""

    def make(files: Mapping[str, Path], path: Path) -> None:
        arrays = read(files)
        with replacing(path) as partial, partial.open("wb") as out:
            np.savez_compressed(out, **arrays)  # type: ignore[arg-type]

    return make
