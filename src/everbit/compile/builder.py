"""Collects the tensors and layers of a program while a network is lowered."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from everbit.compile.operations import OPERATIONS
from everbit.compile.program import Layer, Parameter, Tensor
from everbit.errors import CompileError


@dataclass
class ProgramBuilder:
    """Tensors and layers so far; indices are positions in the lists."""

    tensors: list[Tensor] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)

    def add(
        self,
        kind: str,
        name: str,
        inputs: tuple[int, ...],
        output: Tensor,
        *,
        attributes: dict[str, int] | None = None,
        arrays: dict[str, NDArray[np.generic]] | None = None,
        parameters: dict[str, Parameter] | None = None,
    ) -> int:
        """Appends a layer and the tensor it writes; returns the tensor's index."""
        operation = OPERATIONS[kind]
        attributes = dict.fromkeys(operation.later, 0) | (attributes or {})
        missing = set(operation.attributes) - set(attributes)
        if missing:
            raise CompileError(f"{name}: the layer {kind} lacks {', '.join(sorted(missing))}")
        self.tensors.append(output)
        index = len(self.tensors) - 1
        self.layers.append(
            Layer(
                kind,
                name,
                inputs,
                index,
                {key: int(v) for key, v in attributes.items()},
                arrays or {},
                parameters or {},
            )
        )
        return index
