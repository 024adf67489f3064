"""The memory of one training step as W23 counts it (its section 4; docs/low_memory.md): variable by variable."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from everbit.zoo.memory.steps import Step

MOMENTA = {"adam": 2, "sgd": 1, "bop": 1}
"""Values that an optimizer remembers of each weight."""


@dataclass(frozen=True)
class Variable:
    """One line of the count; bytes of the standard and of the proposed algorithm."""

    name: str
    standard: float
    proposed: float


def w23_count(steps: list[Step], batch: int, optimizer: str) -> list[Variable]:
    """The variables of a step on `batch` images.

    Standard: float32. Proposed: activations, masks and weight gradients of one bit, the rest of 16. Bop's weights are
    bits in both.
    """
    weighted = [step for step in steps if step.weights]
    weights = sum(step.weights for step in weighted)
    kept = batch * sum(steps[step.inputs[0]].elements for step in weighted)
    largest = batch * max(step.elements for step in weighted)
    pooled = batch * sum(steps[step.inputs[0]].elements for step in steps if isinstance(step.module, nn.MaxPool2d))
    masks = batch * sum(steps[step.inputs[0]].elements for step in weighted[1:])
    momenta = MOMENTA[optimizer] * weights
    latent = (weights / 8, weights / 8) if optimizer == "bop" else (weights * 4, weights * 2)
    return [
        Variable("activations kept for the backward pass", kept * 4, kept / 8),
        Variable("activations in work (Y, dX)", largest * 4, largest * 2),
        Variable("gradients in work (dY)", largest * 4, largest * 2),
        Variable("weights", *latent),
        Variable("weight gradients", weights * 4, weights / 8),
        Variable("momenta", momenta * 4, momenta * 2),
        Variable("pool masks", pooled * 4, pooled / 8),
        Variable("estimator masks, which W23 leaves out", 0, masks / 8),
    ]
