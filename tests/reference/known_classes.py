"""Programs that know classes before they learn."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from everbit.compile.program import Classifier, Program


def with_known_classes(program: Program, rng: np.random.Generator, labels: tuple[Hashable, ...]) -> Program:
    """The program with rows of a classifier: some large weights, biases of a few units, and counts of any size."""
    rows, features = len(labels), program.features
    weights = np.clip(np.round(rng.normal(0, 2.0**28, (rows, features))), 1 - 2**31, 2**31 - 1)
    bias = np.round(rng.normal(0, 2.0**17, rows))
    past = rng.integers(1, 40, rows)
    classifier = Classifier(labels, *(array.astype(np.int32) for array in (weights, bias, past)))
    return replace(program, head=replace(program.head, classifier=classifier))
