"""Accuracy of the classes that a model or a learner knows, as a function and as `everbit evaluate`."""

from __future__ import annotations

import json
from collections.abc import Hashable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from everbit import cli
from everbit.compile.program import Program
from everbit.data.datasets import load
from everbit.data.images import fit_images
from everbit.errors import LabelError
from everbit.formats.model_file import save_program
from everbit.learner.evaluation import class_numbers, evaluate
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings
from reference.known_classes import with_known_classes
from reference.random_program import random_program

NAMES = ("ant", "bee", "cat", "dog")


@pytest.fixture(scope="module")
def learner() -> Learner:
    """Knows 10 classes of images of 7 x 6 pixels, and was told nothing."""
    rng = np.random.default_rng(3)
    program = random_program(rng, q_f=8, latent_bits=4, channels=9, height=7, width=6, blocks=1)
    return Learner(with_known_classes(program, rng, tuple(range(10))), Settings(classes=2))


@pytest.mark.parametrize(
    ("labels", "whole", "numbers"),
    [
        (["dog", "ant", "cat", "bee"], True, [3, 0, 2, 1]),
        ([3, 1, 0, 2], True, [3, 1, 0, 2]),
        (["Ant", "Bee", "Cat", "Dog"], True, [0, 1, 2, 3]),
        (["dog", "bee"], False, [3, 1]),
        ([2], False, [2]),
        ([("a", 1), 7, 9, None], False, [0, 1, 2, 3]),
    ],
)
def test_classes_find_their_numbers(labels: list[object], whole: bool, numbers: list[int]) -> None:
    assert class_numbers(labels, NAMES, whole).tolist() == numbers  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("labels", "whole"),
    [
        ([0, 1, 2], True),
        (["dog", "bee"], True),
        ([0, 1, 2, 3, 4], True),
        ([-1, 0], False),
        ([True], False),
        (["ant", 3], False),
    ],
)
def test_classes_that_do_not_fit(labels: list[object], whole: bool) -> None:
    with pytest.raises(LabelError, match=f"knows {len(labels)} classes, the data set has 4: name the data set"):
        class_numbers(labels, NAMES, whole)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "labels", [["eel", "bee", "fox"], ["ant", "bee", "cat", "dog", "eel", "fox"], ["eel", 1, "fox"]]
)
def test_words_of_a_learner_are_names_of_the_set(labels: list[Hashable]) -> None:
    """By their order they would be counted as other classes."""
    with pytest.raises(LabelError, match="classes that the data set lacks: eel, fox; name a data set"):
        class_numbers(labels, NAMES, all_of_them=False)
    with pytest.raises(LabelError, match="lacks: 0, 1, 2, 3, 4 and 2 more;"):
        class_numbers([str(number) for number in range(7)], NAMES, all_of_them=False)


def test_it_counts_what_the_learner_gets_right(learner: Learner) -> None:
    dataset = load("fashion_demo")
    images, labels = dataset.test_images[:150], dataset.test_labels[:150]
    images = images if learner.image_shape[2] == 3 else images[..., :1]
    seen = []
    found = evaluate(learner, images, labels, np.arange(10), lambda done, accuracy: seen.append((done, accuracy)))
    logits = learner.logits(fit_images(images, learner.image_shape))
    order = np.argsort(-logits, axis=1, kind="stable")
    assert found.images == 150
    assert found.top1 == np.mean(order[:, 0] == labels)
    assert found.top5 == np.mean((order[:, :5] == labels[:, None]).any(1))
    assert [done for done, _ in seen] == [64, 128, 150]
    assert seen[-1][1] == found.top1
    assert evaluate(learner, images, labels, np.arange(10)[::-1].copy()).top1 == np.mean(9 - order[:, 0] == labels)


def run(*options: str) -> Result:
    return CliRunner().invoke(cli.app, ["evaluate", *options])


def colored_program(seed: int) -> Program:
    """A program for 8 x 8 images of 3 channels."""
    rng, shape = np.random.default_rng(seed), {"channels": 9, "height": 8, "width": 8}
    programs = (random_program(rng, q_f=8, latent_bits=4, blocks=1, **shape) for _ in range(20))
    return next(program for program in programs if program.input_shape[2] == 3)


@pytest.fixture
def model(tmp_path: Path) -> str:
    program = with_known_classes(colored_program(3), np.random.default_rng(3), tuple(range(10)))
    save_program(program, tmp_path / "known.everbit")
    return str(tmp_path / "known.everbit")


def test_the_command_reports_a_model(model: str) -> None:
    shown = run(model, "--data", "fashion_demo", "--count", "100", "--json")
    assert shown.exit_code == 0, shown.output
    result = json.loads(shown.stdout)
    dataset = load("fashion_demo")
    step = len(dataset.test_images) // 100
    images, labels = dataset.test_images[::step][:100], dataset.test_labels[::step][:100]
    expected = np.mean(np.array(Learner.open(model).predict(fit_images(images, (8, 8, 3)))) == labels)
    assert (result["images"], result["classes"], result["top1"]) == (100, 10, expected)
    assert result["top5"] >= result["top1"]
    assert result["images_per_second"] > 0
    text = run(model, "--data", "fashion_demo", "--count", "100", "--split", "train")
    assert text.exit_code == 0, text.output
    assert "of 100 train images of fashion_demo (10 classes known" in text.stdout


def test_the_command_reports_a_saved_learner(tmp_path: Path) -> None:
    """It need not know all classes of the set."""
    dataset, learner = load("fashion_demo"), Learner(colored_program(4), Settings(classes=9))
    known = dataset.train_labels[:60] != 3
    images = fit_images(dataset.train_images[:60][known], learner.image_shape)
    learner.partial_fit(images, dataset.train_labels[:60][known].tolist(), epochs=1)
    learner.save(tmp_path / "some.learner")
    shown = run(str(tmp_path / "some.learner"), "--data", "fashion_demo", "--count", "20")
    assert shown.exit_code == 0, shown.output
    assert f"({len(learner.classes_)} of the 10 classes known" in shown.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["birealnet18"], "birealnet18 knows no classes: compile it with --keep-classifier"),
        (["nothing.everbit"], "cannot read the model file nothing.everbit"),
        (["birealnet18", "--split", "val"], "unknown split 'val': choose one of test, train"),
    ],
)
def test_mistakes_are_named(options: list[str], message: str) -> None:
    shown = run(*options, "--data", "fashion_demo")
    assert shown.exit_code == 1
    assert message in " ".join(shown.stderr.split())


def test_another_data_set(model: str, tmp_path: Path) -> None:
    program = Learner.open(model).program
    save_program(with_known_classes(program, np.random.default_rng(0), ("a", "b")), tmp_path / "two.everbit")
    shown = run(str(tmp_path / "two.everbit"), "--data", "fashion_demo")
    assert shown.exit_code == 1
    assert "the model knows 2 classes, the data set has 10" in " ".join(shown.stderr.split())
