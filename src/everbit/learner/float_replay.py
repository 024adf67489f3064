"""The replay memory of a float learner: a class-balanced reservoir (docs/method.md 1.3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class FloatReplayMemory:
    """At most `per_class` stored latents of each class, every pattern ever seen of a class kept with equal probability.

    patterns: uint8 [classes, per_class, bytes]. seen: patterns offered of each class, int64 [classes]; it persists, so
    that Vitter's algorithm R goes on across experiences.
    """

    def __init__(self, classes: int, per_class: int, stored_bytes: int) -> None:
        self.patterns: NDArray[np.uint8] = np.zeros((classes, per_class, stored_bytes), np.uint8)
        self.seen: NDArray[np.int64] = np.zeros(classes, np.int64)

    @property
    def bytes(self) -> int:
        """Bytes of latents, of a 16-bit label each and of a 32-bit counter a class, as the engine counts them."""
        labels: int = 2 * self.patterns.shape[0] * self.patterns.shape[1]
        return self.patterns.nbytes + labels + 4 * len(self.seen)

    def offer(self, pattern: NDArray[np.uint8], label: int, generator: np.random.Generator) -> None:
        """Keeps the pattern, uint8 [bytes], or not, by the rule above."""
        per_class = self.patterns.shape[1]
        place = int(self.seen[label])
        self.seen[label] += 1
        if place >= per_class:
            place = int(generator.integers(place + 1))
        if place < per_class:
            self.patterns[label, place] = pattern

    def contents(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """All patterns held, uint8 [N, bytes], and their labels, int64 [N]."""
        held = np.arange(self.patterns.shape[1]) < self.seen[:, None]
        return self.patterns[held], np.nonzero(held)[0]
