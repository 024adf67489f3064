"""Mistakes only the engine's learner can meet; those of every learner are in test_protocol.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everbit import engine
from everbit.compile.image import program_image
from everbit.errors import CapacityError, ConfigurationError
from everbit.formats.model_file import save_program
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings, parse_bytes
from reference.random_program import random_images, random_program

PROGRAM = random_program(np.random.default_rng(4), q_f=8, latent_bits=2, channels=5, height=5, width=4, blocks=1)


def images(count: int) -> np.ndarray:
    return random_images(np.random.default_rng(0), PROGRAM, count)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "magic"}, "unknown strategy 'magic'.*choose one of"),
        ({"classes": 0}, "classes is 0.*1 to 65534"),
        ({"classes": 65535}, "classes is 65535"),
        ({"classes": 2.5}, "classes is 2.5: choose a whole number"),
        ({"classes": "ten"}, "classes is 'ten'"),
        ({"classes": True}, "classes is True"),
        ({"replay_per_class": 0}, "replay_per_class is 0"),
        ({"classes": 65534, "replay_per_class": 2**20}, "replay_per_class times classes is .* to 268435456"),
        ({"experience_images": -1}, "experience_images is -1"),
        ({"batch_new": 0}, "batch_new is 0"),
        ({"batch_replayed": 5000}, "batch_replayed is 5000.*4096"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**64}, "seed is"),
        ({"memory": "lots"}, "memory 'lots' is no size.*2MB"),
        ({"memory": -5}, "memory -5 is no size"),
        ({"memory": "0 MB"}, "no size"),
        ({"memory": "9" * 400}, "no size"),
        ({"learning_rates": {"heat": 0.1}}, "kind 'heat'.*head, binary"),
        ({"learning_rates": {"head": -0.1}}, "learning rate of head is -0.1.*0 to"),
        ({"learning_rates": {"head": float("nan")}}, "learning rate of head is nan"),
        ({"learning_rates": {"head": "fast"}}, "learning rate of head is 'fast'"),
        ({"learning_rates": 0.1}, "learning_rates are 0.1.*dict"),
        ({"learning_rates": {"head": 1e-320}}, "engine refuses.*learning rate"),
        ({"count_replayed": "yes"}, "count_replayed is 'yes'.*True or False"),
        ({"rounding": "up"}, "unknown rounding 'up': choose one of nearest, stochastic"),
        ({"rounding": None}, "unknown rounding None"),
    ],
)
def test_settings_out_of_range_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Learner(PROGRAM, Settings(**options))


def test_mini_batches_too_large_for_exact_sums_are_named() -> None:
    """Those of 32-bit gradients; the head has a bound of its own."""
    large = Settings(batch_new=4096, batch_replayed=4096)
    Learner(PROGRAM, large)
    with pytest.raises(ConfigurationError, match=r"mini-batch is too large for exact sums of 32-bit.*lower it"):
        Learner(PROGRAM, large, "8,16,32,2")
    options = {"q_bin": 8, "q_nonbin": 16, "classes": 65534, "cwr": True, "learning_rates": [(0, 0)] * 5}
    with pytest.raises(ValueError, match="mini-batch is too large for so many classes"):
        engine.Network(program_image(PROGRAM), 20000, options)


@pytest.mark.parametrize(
    "widths", ["8,16,16", "8,16,16,3", "8,2,16,2", "8,16,8,1", "16,16,16,2", "a,b,c,d", "8,16,4,2"]
)
def test_widths_the_program_does_not_have_are_named(widths: str) -> None:
    with pytest.raises(ConfigurationError, match=r"8,16,16|choose one of|do not fit the model"):
        Learner(PROGRAM, widths=widths)


@pytest.mark.parametrize("epochs", [0, -1, 2.5, "5", True, 2**16 + 1])
def test_epochs_must_be_a_whole_number(epochs: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"epochs is .*whole number from 1 to 65536"):
        Learner(PROGRAM).partial_fit(images(2), [0, 1], epochs=epochs)


def test_numbers_of_numpy_are_numbers() -> None:
    settings = Settings(classes=np.int64(4), learning_rates={"head": np.float32(0.5)}, seed=np.uint64(7))
    assert (type(settings.classes), type(settings.learning_rates["head"]), type(settings.seed)) == (int, float, int)
    Learner(PROGRAM, settings).partial_fit(images(2), [0, 1], epochs=np.int32(1))


@pytest.mark.parametrize("strategy", ["lr", "cwr", "naive"])
def test_too_little_memory_says_how_much_is_enough(strategy: str) -> None:
    with pytest.raises(
        CapacityError, match=r"1,000 bytes are too few.*give at least [0-9,]+, or lower classes"
    ) as error:
        Learner(PROGRAM, Settings(strategy=strategy, memory=1000))
    assert isinstance(error.value, MemoryError)


def test_an_experience_beyond_the_planned_room_is_refused() -> None:
    learner = Learner(PROGRAM, Settings(classes=3, memory="200KB", experience_images=4))
    learner.partial_fit(images(4), [0, 0, 1, 1])
    before = learner.state
    with pytest.raises(CapacityError, match=r"5 images does not fit.*smaller parts.*experience_images=5"):
        learner.partial_fit(images(5), [0] * 5)
    assert learner.state == before
    assert learner.partial_fit(images(2), [2, 2]).classes_ == [0, 1, 2]


@pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="the address sanitizer maps terabytes")
def test_more_memory_than_there_is(tmp_path: Path) -> None:
    """In a process that may take 1 GB more than it has."""
    save_program(PROGRAM, tmp_path / "a.everbit")
    script = """
import resource, sys
from everbit import Learner, Settings
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**30,) * 2)
Learner.open(sys.argv[1], settings=Settings(classes=65534, replay_per_class=2**12, batch_new=1, batch_replayed=1))
"""
    command = [sys.executable, "-c", script, str(tmp_path / "a.everbit")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert "CapacityError: this machine has too little memory for the learner: lower classes" in done.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2MB", 2_000_000),
        ("512KiB", 524_288),
        ("1.5 kb", 1500),
        (" 7 ", 7),
        (4096, 4096),
        ("0.1GiB", 107_374_182),
        (None, None),
    ],
)
def test_sizes(text: str | int | None, expected: int | None) -> None:
    assert parse_bytes(text) == expected


def test_the_native_learner_keeps_its_order() -> None:
    """The engine itself refuses calls in an order that would read what was never written."""
    native = Learner(PROGRAM, Settings(classes=2, experience_images=3))._native
    for call in (native.train_step, native.end_experience, lambda: native.begin_training(1)):
        with pytest.raises(ValueError, match="experience"):
            call()
    labels = np.zeros(1, np.int32)
    with pytest.raises(ValueError, match="beyond the learner's classes"):
        native.add(images(1), labels + 2)
    with pytest.raises(ValueError, match="as many labels"):
        native.add(images(2), labels)
    native.add(images(1), labels)
    with pytest.raises(ValueError, match="train on"):
        native.train_step()
    native.begin_training(1)
    with pytest.raises(ValueError, match="being trained on"):
        native.begin_training(1)
    with pytest.raises(ValueError, match="being trained on"):
        native.add(images(1), labels)
    native.train_step()
    native.train_step()
    native.end_experience()
    native.add(images(3), np.zeros(3, np.int32))
    with pytest.raises(ValueError, match="planned for"):
        native.add(images(1), labels)
