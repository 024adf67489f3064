"""The learner in NumPy, at human speed: mini-batches, replay memory, CWR*, and every random draw in the engine's order.

Example:
    learner = ReferenceLearner(program, ReferenceOptions(classes=5, replay_slots=20, replay_per_class=4), rates)
    learner.learn(images, labels, epochs=2)
    learner.replay()                 # patterns and labels, by slot
    learner.network.logits(codes)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from everbit.compile.program import Program
from reference import fixed_point
from reference.fixed_point import Integers, Scale
from reference.network import ReferenceNetwork

WORD = 2**64 - 1


def mix64(z: int) -> int:
    """SplitMix64's output function on one number."""
    return int(fixed_point.mix64(np.array([z], np.uint64))[0])


@dataclass
class SplitMix64:
    """A random generator whose state is one 64-bit word."""

    state: int

    def next(self) -> int:
        """64 random bits."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & WORD
        return mix64(self.state)

    def below(self, bound: int) -> int:
        """A number in [0, bound), every one equally likely."""
        threshold = 2**32 % bound
        while True:
            product = (self.next() >> 32) * bound
            if product % 2**32 >= threshold:
                return product >> 32


def permuted(index: int, size: int, key: int) -> int:
    """Place `index` of the order of [0, size) that a key chooses: a four-round Feistel network, walked until inside."""
    half = next(bits for bits in range(1, 33) if 4**bits >= size)
    mask = 2**half - 1
    while True:
        left, right = index >> half, index & mask
        for number in range(1, 5):
            left, right = right, left ^ (mix64((key + (number << 32) + right) & WORD) & mask)
        index = (left << half) | right
        if index < size:
            return index


@dataclass(frozen=True)
class ReferenceOptions:
    """As everbit.learner.settings.Settings; replay_slots 0: no replay."""

    classes: int
    replay_slots: int
    replay_per_class: int
    batch_new: int = 16
    batch_replayed: int = 64
    train_body: bool = True
    count_replayed: bool = True
    stochastic: bool = False
    seed: int = 0


@dataclass
class Reservoir:
    """A class-balanced reservoir: lists of patterns and labels, one entry a slot."""

    slots: int
    per_class: int
    patterns: list[NDArray[np.uint8]] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    seen: dict[int, int] = field(default_factory=dict)

    def slots_of(self, label: int) -> list[int]:
        """Slots that hold a class."""
        return [slot for slot, held in enumerate(self.labels) if held == label]

    def offer(self, pattern: NDArray[np.uint8], label: int, random: SplitMix64) -> None:
        """Algorithm R for the class, after quotas shrank where the class is new."""
        if self.slots == 0:
            return
        self.seen[label] = self.seen.get(label, 0) + 1
        quota = min(self.slots // len(self.seen), self.per_class)
        if self.seen[label] == 1:
            self._shrink(quota, random)
        own = self.slots_of(label)
        if len(own) < quota and self.seen[label] <= quota:
            self.patterns.append(pattern)
            self.labels.append(label)
            return
        draw = random.below(self.seen[label])
        if draw < len(own):
            self.patterns[own[draw]] = pattern

    def _shrink(self, quota: int, random: SplitMix64) -> None:
        for label in sorted(self.seen):
            while len(own := self.slots_of(label)) > quota:
                slot = own[random.below(len(own))]
                last_pattern, last_label = self.patterns.pop(), self.labels.pop()
                if slot < len(self.labels):
                    self.patterns[slot], self.labels[slot] = last_pattern, last_label


class ReferenceLearner:
    """A program that learns experience after experience (docs/method.md 1.1 to 1.3)."""

    def __init__(
        self,
        program: Program,
        options: ReferenceOptions,
        rates: Mapping[str, Scale],
        widths: tuple[int, int] = (16, 16),
    ) -> None:
        self.options, self.rates = options, rates
        self.network = ReferenceNetwork(program, *widths, options.classes)
        self.memory = Reservoir(options.replay_slots, options.replay_per_class)
        self.random = SplitMix64(options.seed)

    def encode(self, images: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Stored latents [N, bytes] of images."""
        return self.network.pack_codes(self.network.frozen_forward(images))

    def logits(self, images: NDArray[np.uint8]) -> Integers:
        """Logits [N, classes] of the consolidated head."""
        return self.network.logits(self.network.unpack_codes(self.encode(images)))

    def replay(self) -> tuple[NDArray[np.uint8], list[int]]:
        """Patterns and labels of the replay memory, by slot."""
        return np.array(self.memory.patterns, np.uint8), list(self.memory.labels)

    def learn(self, images: NDArray[np.uint8], labels: list[int], epochs: int) -> None:
        """One experience."""
        options, stored = self.options, self.encode(images)
        new_counts = np.bincount(labels, minlength=options.classes)
        old_counts = np.bincount(np.array(self.memory.labels, int), minlength=options.classes)
        everyone = np.ones(options.classes, np.bool_)  # every row competes, those of absent classes from 0
        self.network.begin_experience(np.nonzero(new_counts + old_counts)[0].tolist())
        replay_key, replay_place = self.random.next(), 0
        for _ in range(epochs):
            key = self.random.next()
            order = [permuted(i, len(labels), key) for i in range(len(labels))]
            for start in range(0, len(labels), options.batch_new):
                chosen = order[start : start + options.batch_new]
                batch = [(stored[i], labels[i]) for i in chosen]
                share = -(-options.batch_replayed * len(chosen) // options.batch_new) if self.memory.labels else 0
                for _ in range(share):
                    if replay_place == len(self.memory.labels):
                        replay_key, replay_place = self.random.next(), 0
                    slot = permuted(replay_place, len(self.memory.labels), replay_key)
                    batch.append((self.memory.patterns[slot], self.memory.labels[slot]))
                    replay_place += 1
                codes = self.network.unpack_codes(np.array([pattern for pattern, _ in batch]))
                rounding_key = self.random.next() if options.stochastic else None
                targets = np.array([label for _, label in batch])
                self.network.train_step(codes, targets, everyone, self.rates, options.train_body, rounding_key)
        counts = new_counts + old_counts if options.count_replayed else new_counts
        self.network.consolidate(dict(enumerate(counts.tolist())))
        for pattern, label in zip(stored, labels, strict=True):
            self.memory.offer(pattern, label, self.random)
