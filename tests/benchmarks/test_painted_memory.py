"""Painted memory shows what learning touched."""

from __future__ import annotations

import numpy as np
import pytest

from everbit._engine import XnorGemm
from everbit.benchmarks.training_steps import learn_experience, start_learner
from experiments.small_model import small_program


def test_only_what_is_used_loses_its_color() -> None:
    learner = start_learner(small_program())
    memory = learner.memory()
    learner.paint(0xC3)
    assert learner.touched(0xC3) == memory["total"] - memory["shared"]
    learner.logits(np.zeros((1, 32, 32, 3), np.uint8))
    one_image = learner.touched(0xC3)
    learn_experience(learner, 80, 10)
    without_replay = learner.touched(0xC3)
    learn_experience(learner, 80, 10)
    assert memory["total"] - memory["shared"] < one_image < without_replay < learner.touched(0xC3) == memory["total"]


def test_paint_changes_no_result() -> None:
    states = []
    for color in (0x00, 0xFF, 0x5A):
        learner = start_learner(small_program())
        for _ in range(2):
            learner.paint(color)
            learn_experience(learner, 80, 10)
        states.append(learner.state())
    assert states[0] == states[1] == states[2]


@pytest.mark.parametrize("shape", [(0, 64, 8), (1, 65, 8), (1, 64, 0), (1, 32768, 8)])
def test_an_impossible_product(shape: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="whole words of at most 32767 bits"):
        XnorGemm(*shape)
