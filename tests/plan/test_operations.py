"""Operations are counted as a hand would."""

from __future__ import annotations

from dataclasses import replace

import pytest

from everbit import Settings
from everbit.plan.memory import learner_memory
from everbit.plan.operations import (
    BINARY,
    DENSE,
    DEPTHWISE,
    FORWARD,
    FROZEN,
    INPUTS,
    WEIGHTS,
    Experience,
    Operations,
    experience,
    operations,
)
from everbit.plan.programs import plannable
from everbit.quantize.widths import Widths

SETTINGS = Settings(classes=3, batch_new=2, batch_replayed=4)


def counted(name: str, size: int, width: float, cut: str, widths: str, settings: Settings = SETTINGS) -> Operations:
    chosen = Widths.parse(widths)
    (candidate,) = plannable(name, width, None, size).candidates([cut], [chosen])
    memory = learner_memory(candidate.program, settings, chosen, 8)
    return operations(candidate.program, settings, chosen, memory.gradients)


def test_a_binary_network_s_convolutions_and_head() -> None:
    """VGG-Small at half its width: behind block5 one binary convolution of 256 channels, 8x8, pooled to 4x4."""
    found = counted("vgg_small", 32, 0.5, "block5", "8,8,16,1")
    last = 8 * 8 * 256 * 256 * 9
    assert found.work[FORWARD, BINARY] == found.work[WEIGHTS, BINARY] == last
    assert found.work[INPUTS, BINARY] == 0  # nothing in front of it learns
    head = 3 * 4 * 4 * 256
    assert found.work[FORWARD, DENSE] == found.work[INPUTS, DENSE] == found.work[WEIGHTS, DENSE] == head
    assert found.work[FROZEN, DENSE] == 32 * 32 * 3 * 64 * 9
    assert found.update >= 256 * 256 * 9 + head


def test_binary_weights_of_one_bit_have_no_gradient() -> None:
    assert counted("vgg_small", 32, 0.5, "block5", "8,1,16,1").work[WEIGHTS, BINARY] == 0
    assert counted("birealnet18", 32, 0.25, "stage4.block1", "8,1,16,1").work[INPUTS, BINARY] > 0


def test_channels_fill_words() -> None:
    """16 channels are packed in a word of 64."""
    found = counted("vgg_small", 32, 0.125, "block2", "8,1,16,1")
    first, second = 32 * 32 * 16 * 64 * 9, 16 * 16 * 32 * 64 * 9
    rest = 16 * 16 * 32 * 64 * 9, 8 * 8 * 64 * 64 * 9, 8 * 8 * 64 * 64 * 9
    assert found.work[FROZEN, BINARY] + found.work[FORWARD, BINARY] == first + second + sum(rest)


def test_filters_of_one_channel() -> None:
    """MobileNetV1 behind block12, 4x4 pixels at 64: depthwise and 1x1 of 256 channels at a quarter of its width."""
    found = counted("mobilenet_v1", 128, 0.25, "block12", "8,1,16,8")
    places, channels = 4 * 4, 256
    assert found.work[FORWARD, DEPTHWISE] == places * channels * 9
    assert found.work[FORWARD, DENSE] == places * channels * channels + 3 * channels
    assert found.work[WEIGHTS, DEPTHWISE] == places * channels * 9
    assert found.work[INPUTS, DEPTHWISE] == 0
    assert found.work[INPUTS, DENSE] == places * channels * channels + 3 * channels


def test_a_head_alone_learns_only_itself() -> None:
    found = counted("vgg_small", 32, 0.5, "block5", "8,8,16,1", replace(SETTINGS, strategy="cwr", learning_rates={}))
    assert {phase for phase, _ in found.work} == {FROZEN, FORWARD, WEIGHTS}
    assert found.update == 3 * 4 * 4 * 256


@pytest.mark.parametrize(
    ("images", "new", "replayed", "epochs", "expected"),
    [
        (21, 21, 107, 1, Experience(21, 1, 128)),
        (10, 4, 12, 1, Experience(10, 3, 16 + 16 + 8)),
        (9, 4, 6, 2, Experience(9, 6, 2 * (10 + 10 + 3))),
        (5, 8, 0, 3, Experience(5, 3, 15)),
    ],
)
def test_mini_batches_of_an_experience(images: int, new: int, replayed: int, epochs: int, expected: Experience) -> None:
    settings = Settings(classes=2, batch_new=new, batch_replayed=replayed, epochs=epochs)
    assert experience(settings, images) == expected


def test_without_replay_no_pattern_comes_back() -> None:
    assert experience(Settings("naive", classes=2, batch_new=4, batch_replayed=12, epochs=1), 8) == Experience(8, 2, 8)
