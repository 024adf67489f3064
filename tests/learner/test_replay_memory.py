"""The replay memory's promises (docs/method.md 1.3), through the learner.

They are capacity, quotas, pairing, equal probability and bytes. Stored latents of the transparent program are the bytes
of the image, which hold its class and a number of its own.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from everbit.compile.program import Program
from everbit.errors import CapacityError
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings
from reference.program_builder import ProgramBuilder
from reference.random_program import random_images, random_program
from reference.transparent_program import transparent_program

MOST_CLASSES = 6
PROGRAM = transparent_program(body=True)
BATCHES = {"batch_new": 8, "batch_replayed": 8}

Experience = list[int]
streams = st.lists(st.lists(st.integers(0, MOST_CLASSES - 1), min_size=1, max_size=25), min_size=1, max_size=6)
seeds = st.integers(0, 2**64 - 1)


class Stream:
    """Images that carry their class and their place in the stream."""

    def __init__(self) -> None:
        self.shown: list[int] = []

    def images(self, experience: Experience) -> NDArray[np.uint8]:
        """One image for each label: byte 0 is the class, bytes 4 to 7 the place in the stream."""
        pixels = np.zeros((len(experience), 8), np.uint8)
        pixels[:, 0] = experience
        pixels[:, 4:] = np.arange(len(self.shown), len(self.shown) + len(experience), dtype="<u4")[:, None].view(
            np.uint8
        )
        self.shown += experience
        return pixels.reshape(-1, 1, 2, 4)


def held(learner: Learner) -> tuple[list[int], list[int]]:
    """Class and place in the stream of every pattern in the replay memory, by slot; checks the labels beside them."""
    patterns, indices = learner._native.replay()
    classes = patterns[:, 0].tolist()
    assert [learner.classes_[index] for index in indices] == classes, "a latent stands beside another's label"
    return classes, patterns[:, 4:].copy().view("<u4").ravel().tolist()


def learn(learner: Learner, stream: Stream, experience: Experience) -> None:
    learner.partial_fit(stream.images(experience), experience, epochs=1)


def check(learner: Learner, stream: Stream, slots: int, per_class: int) -> None:
    """What must hold after every experience."""
    classes, places = held(learner)
    assert len(classes) <= slots
    assert len(set(places)) == len(places), "a pattern is held twice"
    assert [stream.shown[place] for place in places] == classes
    quota = min(slots // len(set(stream.shown)), per_class)
    assert Counter(classes) == {c: min(quota, seen) for c, seen in Counter(stream.shown).items() if quota}


@settings(max_examples=60, deadline=None)
@given(stream=streams, per_class=st.integers(1, 9), seed=seeds)
def test_every_class_gets_its_slots_whatever_the_order(stream: list[Experience], per_class: int, seed: int) -> None:
    learner = Learner(PROGRAM, Settings(classes=MOST_CLASSES, replay_per_class=per_class, seed=seed, **BATCHES))
    shown = Stream()
    for experience in stream:
        learn(learner, shown, experience)
        check(learner, shown, MOST_CLASSES * per_class, per_class)


def least_memory() -> int:
    """Bytes of the smallest learner of these tests: one slot a class."""
    with pytest.raises(CapacityError) as error:
        Learner(PROGRAM, Settings(classes=MOST_CLASSES, memory=1000, experience_images=25, **BATCHES))
    return int(
        str(error.value).split("at least ")[1].split(",")[0] + str(error.value).split("at least ")[1].split(",")[1][:3]
    )


LEAST = least_memory()


@settings(max_examples=60, deadline=None)
@given(stream=streams, spare=st.integers(0, 600), seed=seeds)
def test_quotas_shrink_evenly_within_a_budget_of_bytes(stream: list[Experience], spare: int, seed: int) -> None:
    memory = LEAST + spare
    options = Settings(classes=MOST_CLASSES, memory=memory, experience_images=25, seed=seed, **BATCHES)
    learner = Learner(PROGRAM, options)
    pattern = 8 + 2
    slots = (learner.memory_use["replay"] - 4 * MOST_CLASSES) // pattern
    assert slots >= MOST_CLASSES
    shown = Stream()
    for experience in stream:
        learn(learner, shown, experience)
        check(learner, shown, slots, slots)
        assert learner.memory_use["total"] <= memory


@settings(max_examples=100, deadline=None)
@given(spare=st.integers(0, 100_000), strategy=st.sampled_from(["lr", "cwr", "naive"]), latent=st.sampled_from([1, 4]))
def test_the_budget_is_kept_and_used(spare: int, strategy: str, latent: int) -> None:
    """The whole arena stays below the limit; less than a slot and the alignment of two blocks stays unused."""
    program = random_program(np.random.default_rng(latent), latent_bits=latent, channels=3, height=6, width=5)
    options = {"strategy": strategy, "classes": 3, "experience_images": 10, "batch_new": 2, "batch_replayed": 3}
    with pytest.raises(CapacityError) as error:
        Learner(program, Settings(memory=1000, **options))
    least = int(
        "".join(
            character for character in str(error.value).split("at least ")[1].split(" or ")[0] if character.isdigit()
        )
    )
    with pytest.raises(CapacityError):
        Learner(program, Settings(memory=least - 1, **options))
    use = Learner(program, Settings(memory=least + spare, **options)).memory_use
    assert use["total"] == use["persistent"] + use["fixed"] + use["experience"] + use["shared"] <= least + spare
    if strategy == "lr":
        pattern = (np.prod(program.latent_shape) * latent + 7) // 8 + 2
        assert least + spare - use["total"] < pattern + 2 * 128


def kept_counts(experiences: list[Experience], runs: int, **options: object) -> NDArray[np.int64]:
    """How often each pattern of the stream was held at the end, over many seeds."""
    counts = np.zeros(sum(map(len, experiences)), np.int64)
    for seed in range(runs):
        shown = Stream()
        learner = Learner(PROGRAM, Settings(classes=MOST_CLASSES, seed=seed, batch_new=64, batch_replayed=1, **options))
        for experience in experiences:
            learn(learner, shown, experience)
        counts[held(learner)[1]] += 1
    return counts


def assert_equally_likely(counts: NDArray[np.int64], runs: int) -> None:
    """Chi-square of draws without replacement.

    Six standard deviations above its mean is one false alarm in many millions.
    """
    share = counts.sum() / runs / len(counts)
    statistic = ((counts - runs * share) ** 2).sum() / (runs * share * (1 - share)) * (len(counts) - 1) / len(counts)
    freedom = len(counts) - 1
    assert statistic < freedom + 6 * np.sqrt(2 * freedom), counts


def test_every_pattern_of_a_class_is_equally_likely_across_experiences() -> None:
    experiences = [[0] * 7, [1] * 3 + [0] * 2, [0] * 6, [1] * 9]
    runs = 600
    counts = kept_counts(experiences, runs, replay_per_class=4)
    labels = np.concatenate(experiences)
    for label in (0, 1):
        assert counts[labels == label].sum() == 4 * runs
        assert_equally_likely(counts[labels == label], runs)


def test_every_pattern_stays_equally_likely_after_quotas_shrank() -> None:
    """12 slots for one class, then 6, 4 and 3 for each."""
    experiences = [[0] * 15, [0, 0, 1, 1, 0, 1, 1, 1, 1, 1], [2] * 5 + [0] * 3, [3, 1, 3, 0, 3, 3, 2]]
    runs = 600
    spare = 10 * 6  # six slots more than one a class
    least = Settings(classes=MOST_CLASSES, memory=1, experience_images=15, batch_new=64, batch_replayed=1)
    with pytest.raises(CapacityError) as error:
        Learner(PROGRAM, least)
    memory = int("".join(c for c in str(error.value).split("at least ")[1].split(" or ")[0] if c.isdigit())) + spare
    counts = kept_counts(experiences, runs, memory=memory, experience_images=15)
    labels = np.concatenate(experiences)
    for label in range(4):
        assert_equally_likely(counts[labels == label], runs)


def test_300_one_bit_latents_take_their_bits_labels_and_counters_only() -> None:
    build = ProgramBuilder(np.random.default_rng(0), 8)
    build.latent(build.frozen_convolution(build.input(4, 4, 1), 256), 1)
    build.global_average_pool(len(build.tensors) - 1)
    program: Program = build.finish()
    assert program.latent_shape == (4, 4, 256)
    learner = Learner(program, Settings(classes=10, replay_per_class=30))
    assert learner.memory_use["replay"] == 300 * (4 * 4 * 256 // 8) + 300 * 2 + 10 * 4 == 154_240
    rng = np.random.default_rng(1)
    for first in range(0, 10, 2):
        learner.partial_fit(random_images(rng, program, 80), [first, first + 1] * 40, epochs=1)
    patterns, labels = learner._native.replay()
    assert patterns.shape == (300, 512)
    assert np.bincount(labels).tolist() == [30] * 10
    assert learner.memory_use["replay"] == 154_240


def test_without_replay_nothing_is_kept() -> None:
    for strategy in ("naive", "cwr"):
        learner = Learner(PROGRAM, Settings(strategy=strategy, classes=MOST_CLASSES))
        learn(learner, Stream(), [0, 1, 1])
        assert held(learner) == ([], [])


@pytest.mark.parametrize(("preset", "latent_bits"), [("accurate", 1), ("accurate_2bit", 2)])
def test_presets_take_no_more_than_v24_s_settings(preset: str, latent_bits: int) -> None:
    shape = {"height": 4, "width": 4, "channels": 16}
    rng = np.random.default_rng(0)
    paper = Learner(random_program(rng, latent_bits=1, **shape), Settings.preset("v24"))
    better = Learner(random_program(rng, latent_bits=latent_bits, **shape), Settings.preset(preset))
    assert better.memory_use["replay"] <= paper.memory_use["replay"]
