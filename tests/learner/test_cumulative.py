"""The cumulative learner: the engine's on all images at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import safe_open

from everbit.errors import FormatError
from everbit.learner.cumulative import CumulativeLearner
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings
from reference.known_classes import with_known_classes
from reference.random_program import random_images, random_program

PROGRAM = random_program(np.random.default_rng(4), latent_bits=1, height=5, width=4, channels=9, blocks=1)
EXPERIENCES: list[list[Any]] = [["a", "b", "a"], [("d", 1), "a", 2.5], ["b", "c"]]


def images(place: int) -> NDArray[np.uint8]:
    return random_images(np.random.default_rng(place), PROGRAM, len(EXPERIENCES[place]))


@pytest.mark.parametrize("strategy", ["naive", "lr"])
@pytest.mark.parametrize("known", [False, True])
def test_it_is_the_engine_on_everything_at_once(strategy: str, known: bool) -> None:
    program = with_known_classes(PROGRAM, np.random.default_rng(2), ("b", "z")) if known else PROGRAM
    settings = Settings(strategy=strategy, classes=6, experience_images=4, seed=3)
    learner = CumulativeLearner(program, settings)
    for place in range(len(EXPERIENCES)):
        learner.partial_fit(images(place), EXPERIENCES[place], epochs=2)
        every_image = np.concatenate([images(before) for before in range(place + 1)])
        every_label = [label for before in range(place + 1) for label in EXPERIENCES[before]]
        expected = Learner(program, settings).partial_fit(every_image, every_label, epochs=2)
        assert learner.classes_ == expected.classes_
        np.testing.assert_array_equal(learner.predict_proba(images(0)), expected.predict_proba(images(0)))
        kept = every_image.nbytes + 4 * len(every_label)
        use = expected.memory_use
        assert learner.memory_use["replay"] == kept + use["replay"]
        assert learner.memory_use["total"] - kept == pytest.approx(use["total"], abs=200)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("images", lambda x: x[:, 1:], "images is uint8"),
        ("images", lambda x: x.astype(np.int16), "images is int16"),
        ("indices", lambda x: x[1:], "indices is int32"),
        ("indices", lambda x: x + 9, "of no class"),
        ("indices", lambda x: x - 1, "of no class"),
        ("learner", lambda x: x[:-5000], "engine's part"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, change: Any, message: str) -> None:
    path = tmp_path / "a"
    CumulativeLearner(PROGRAM).partial_fit(images(0), EXPERIENCES[0], epochs=1).save(path)
    tensors = safetensors.numpy.load_file(path)
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    tensors[name] = np.ascontiguousarray(change(tensors[name]))
    safetensors.numpy.save_file(tensors, path, metadata)
    with pytest.raises(FormatError, match=message):
        CumulativeLearner.load(path)
