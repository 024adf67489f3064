"""What every learner can do, in scikit-learn's words."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Progress = Callable[[int, int, float], None]
"""Called after each mini-batch: steps done, steps of this experience, accuracy on the mini-batch before its step."""


class ContinualLearner(Protocol):
    """A classifier that learns one experience after another."""

    @property
    def classes_(self) -> list[Hashable]:
        """Labels seen so far, in the order they were first seen."""

    @property
    def memory_use(self) -> dict[str, int]:
        """Bytes by purpose, `total` among them, and `replay`: what is kept of the past, such as latents and labels."""

    def partial_fit(
        self, images: object, labels: Sequence[Hashable], *, epochs: int | None = None, progress: Progress | None = None
    ) -> ContinualLearner:
        """Learns one experience: images uint8 [N, H, W, C] or paths, one hashable label each, new classes welcome."""

    def predict(self, images: object) -> list[Hashable]:
        """The most likely label of each image."""

    def predict_proba(self, images: object) -> NDArray[np.float64]:
        """Probabilities [N, len(classes_)], columns in the order of `classes_`."""

    def latents(self, images: object) -> NDArray[np.uint8]:
        """The latents of images as the replay memory stores them, uint8 [N, bytes]: learning never changes them."""

    def predict_latents(self, latents: NDArray[np.uint8]) -> list[Hashable]:
        """The most likely label of each of some images' `latents`: what `predict` gives for the images."""

    def save(self, path: str | Path) -> None:
        """Writes the learner to one file, whole or not at all."""

    @classmethod
    def load(cls, path: str | Path) -> ContinualLearner:
        """A saved learner, exactly as it was."""
