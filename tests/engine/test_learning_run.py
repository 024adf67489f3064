"""A whole learning run: the same bytes on every instruction set, and those of the NumPy reference."""

from __future__ import annotations

import functools
import hashlib

import numpy as np
import pytest

from everbit import engine
from everbit.compile.operations import PARAMETER_KINDS
from everbit.compile.program import Program
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings
from everbit.quantize.scale import scale_of
from reference.fixed_point import Scale
from reference.known_classes import with_known_classes
from reference.learner import ReferenceLearner, ReferenceOptions
from reference.random_program import random_images, random_program

CLASSES = 5
PER_CLASS = 3
EXPERIENCES = [[0, 0, 1, 1, 1, 0, 1, 0, 0], [2, 1, 2, 2, 2, 2, 1], [3, 4, 4, 0, 3, 3, 4, 2, 3, 4, 3, 4, 0]]
RATES = {"head": 0.05, "binary": 0.3, "norm": 0.02, "bias": 0.02, "weight": 0.02}
Case = tuple[int, int, int, int, int, int, str, str]
CASES: list[Case] = [
    # seed, channels, q_f, q_bin, q_nonbin, latent bits, strategy, rounding
    (0, 64, 8, 16, 16, 1, "lr", "nearest"),
    (1, 130, 16, 8, 16, 8, "lr", "stochastic"),
    (2, 65, 8, 4, 8, 2, "lr", "nearest"),
    (3, 37, 8, 16, 32, 4, "lr", "stochastic"),
    (4, 5, 8, 1, 16, 1, "lr", "nearest"),
    (5, 65, 16, 16, 32, 8, "naive", "nearest"),
    (6, 3, 8, 8, 16, 1, "cwr", "stochastic"),
    (7, 65, 32, 32, 32, 7, "lr", "nearest"),
    (8, 37, 8, 4, 8, 16, "lr", "stochastic"),
]
IDS = ["-".join(map(str, case)) for case in CASES]
SMALL: list[Case] = [(seed, min(channels, 9), *rest) for seed, channels, *rest in CASES if rest[-2] != "naive"]


def start(case: Case, count_replayed: bool = True, known: tuple[int, ...] = ()) -> tuple[Program, Learner]:
    """known: classes that the program brings; replayed patterns stay as many as without them."""
    seed, channels, q_f, q_bin, q_nonbin, latent, strategy, rounding = case
    rng = np.random.default_rng(seed)
    program = random_program(rng, q_f=q_f, latent_bits=latent, channels=channels, height=6, width=5)
    if known:
        program = with_known_classes(program, rng, known)
    settings = Settings(
        strategy,
        CLASSES - len(known),
        replay_per_class=PER_CLASS,
        batch_new=4,
        batch_replayed=6,
        learning_rates=RATES,
        count_replayed=count_replayed,
        rounding=rounding,
        seed=seed,
    )
    return program, Learner(program, settings, f"{q_f},{q_bin},{q_nonbin},{latent}")


def states(case: Case) -> list[str]:
    """Digest of the learner's state after each of three experiences."""
    program, learner = start(case)
    rng = np.random.default_rng(99)
    digests = []
    for labels in EXPERIENCES:
        learner.partial_fit(random_images(rng, program, len(labels)), labels, epochs=2)
        digests.append(hashlib.sha256(learner.state).hexdigest())
    return digests


@functools.cache
def scalar_states(case: Case) -> list[str]:
    before = engine.active_isa()
    engine.select_isa("scalar")
    try:
        return states(case)
    finally:
        engine.select_isa(before)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_every_instruction_set_learns_the_same_bytes(case: Case, isa: str) -> None:
    expected = scalar_states(case)
    assert len(set(expected)) == len(EXPERIENCES)
    assert states(case) == expected


@pytest.mark.parametrize("count_replayed", [True, False])
@pytest.mark.parametrize("known", [(), (1, 3, 0)])
@pytest.mark.parametrize("case", SMALL)
def test_the_engine_learns_what_the_reference_learns(case: Case, known: tuple[int, ...], count_replayed: bool) -> None:
    """Mini-batches, replay memory and head, to the last bit: every latent met its own label, in the same order."""
    program, learner = start(case, count_replayed, known)
    rule = learner.settings.rule
    options = ReferenceOptions(
        classes=CLASSES,
        replay_slots=PER_CLASS * (CLASSES - len(known)) if rule.replay else 0,
        replay_per_class=PER_CLASS,
        batch_new=4,
        batch_replayed=6,
        train_body=rule.train_body,
        count_replayed=count_replayed,
        stochastic=learner.settings.rounding == "stochastic",
        seed=learner.settings.seed,
    )
    rates = {kind: Scale(*scale_of(learner.settings.learning_rates[kind])) for kind in PARAMETER_KINDS}
    reference = ReferenceLearner(program, options, rates, (learner.widths.q_bin, learner.widths.q_nonbin))
    rng = np.random.default_rng(7)
    probe = random_images(rng, program, 3)
    np.testing.assert_array_equal(learner._native.logits(probe), reference.logits(probe))
    for labels in EXPERIENCES:
        images = random_images(rng, program, len(labels))
        learner.partial_fit(images, labels, epochs=2)
        reference.learn(images, [learner.classes_.index(label) for label in labels], epochs=2)
        patterns, held = learner._native.replay()
        expected_patterns, expected_labels = reference.replay()
        assert held.tolist() == expected_labels
        np.testing.assert_array_equal(patterns, expected_patterns.reshape(patterns.shape))
        np.testing.assert_array_equal(learner._native.logits(probe), reference.logits(probe))
