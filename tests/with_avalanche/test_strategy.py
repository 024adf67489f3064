"""The strategy in Avalanche's loops: same learner, same numbers, with Avalanche's metrics, loggers and checkpoints."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("avalanche", reason='Avalanche is not installed: pip install "everbit[avalanche]"')

import torch
from avalanche.benchmarks import nc_benchmark, ni_benchmark
from avalanche.checkpointing import maybe_load_checkpoint, save_checkpoint
from avalanche.evaluation.metrics import (
    StreamConfusionMatrix,
    accuracy_metrics,
    bwt_metrics,
    forgetting_metrics,
    loss_metrics,
    timing_metrics,
)
from avalanche.logging import CSVLogger, InteractiveLogger, TextLogger
from avalanche.training.plugins import EvaluationPlugin

from everbit.avalanche.strategy import EverbitStrategy
from everbit.errors import ConfigurationError, ImageError, LabelError
from everbit.experiments.configuration import LEARNERS
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings
from everbit.quantize.widths import Widths
from experiments.small_model import small_program
from with_avalanche.small_data import SIDE, colored_images, tensor_dataset

PROGRAM = small_program(SIDE, 16)
TRAIN, TEST = colored_images(8, 1), colored_images(3, 2)
STREAM = "Top1_Acc_Stream/eval_phase/test_stream/Task000"


def new_learner(classes: int = 10, **options: Any) -> Learner:
    return Learner(PROGRAM, Settings(classes=classes, learning_rates={"head": 0.5}, **options))


def benchmark(as_floats: bool = False, scenario: Any = nc_benchmark, **options: Any) -> Any:
    train, test = (tensor_dataset(*split, as_floats) for split in (TRAIN, TEST))
    if scenario is nc_benchmark:
        options.setdefault("task_labels", False)
    return scenario(train, test, n_experiences=5, seed=0, **options)


def evaluator(*metrics: Any, **options: Any) -> EvaluationPlugin:
    return EvaluationPlugin(accuracy_metrics(experience=True, stream=True), *metrics, **options)


def strategy(learner: Any = None, **options: Any) -> EverbitStrategy:
    options.setdefault("evaluator", evaluator(loss_metrics(stream=True)))
    return EverbitStrategy(learner=learner or new_learner(), **{"train_epochs": 2, "eval_mb_size": 7, **options})


@pytest.mark.parametrize("as_floats", [False, True])
@pytest.mark.parametrize("scenario", [nc_benchmark, ni_benchmark])
def test_it_learns_what_the_learner_learns_alone(scenario: Any, as_floats: bool) -> None:
    stream, own, alone = benchmark(as_floats, scenario), strategy(), new_learner()
    for experience in stream.train_stream:
        own.train(experience)
        indices = [int(np.flatnonzero((TRAIN[0] == image).all(axis=(1, 2, 3)))[0]) for image in pixels_of(experience)]
        alone.partial_fit(TRAIN[0][indices], TRAIN[1][indices].tolist(), epochs=2)
        results = own.eval(stream.test_stream)
        assert own.learner.state == alone.state
        assert own.learner.classes_ == alone.classes_
        assert results[STREAM] == pytest.approx(np.mean(np.array(alone.predict(TEST[0])) == TEST[1]))
        assert np.isfinite(results["Loss_Stream/eval_phase/test_stream/Task000"])
    assert results[STREAM] > 0.25


def pixels_of(experience: Any) -> list[np.ndarray]:
    """uint8 [H, W, C] of each of its images."""
    images = [experience.dataset[index][0] for index in range(len(experience.dataset))]
    floats = images[0].is_floating_point()
    return [((x * 255).round() if floats else x).to(torch.uint8).permute(1, 2, 0).numpy() for x in images]


@pytest.mark.parametrize("name", ["cumulative", "ncm", "float"])
def test_every_learner_fits(name: str) -> None:
    settings = Settings(strategy=LEARNERS[name].strategy, classes=10, learning_rates={"head": 0.5})
    stream, own = benchmark(), strategy(LEARNERS[name].start(PROGRAM, settings, Widths()))
    for experience in stream.train_stream:
        own.train(experience)
    results = own.eval(stream.test_stream)
    assert results[STREAM] == pytest.approx(np.mean(np.array(own.learner.predict(TEST[0])) == TEST[1]))
    assert results[STREAM] > 0.25


def test_classes_to_come_are_never_predicted() -> None:
    stream, own = benchmark(), strategy()
    assert own.eval(stream.test_stream)[STREAM] <= 0.2  # before it knows a class
    own.train(stream.train_stream[0])
    seen = stream.train_stream[0].classes_in_this_experience
    assert set(own.model(torch.from_numpy(TEST[0]).permute(0, 3, 1, 2)).argmax(dim=1).tolist()) <= set(seen)
    assert own.eval(stream.test_stream)[STREAM] <= len(seen) / 10


def test_metrics_and_loggers(tmp_path: Path) -> None:
    """Of all kinds; those of evaluation stand over the mini-batches trained so far."""
    metrics = [
        forgetting_metrics(experience=True, stream=True),
        bwt_metrics(stream=True),
        loss_metrics(minibatch=True, epoch=True, experience=True, stream=True),
        accuracy_metrics(minibatch=True, epoch=True),
        timing_metrics(epoch=True, experience=True),
        StreamConfusionMatrix(num_classes=10, save_image=False),
    ]
    with (tmp_path / "log.txt").open("w") as log:
        loggers = [CSVLogger(str(tmp_path / "csv")), TextLogger(log)]
        own, stream = strategy(evaluator=evaluator(*metrics, loggers=loggers)), benchmark()
        for experience in stream.train_stream:
            own.train(experience)
            results = own.eval(stream.test_stream)
    assert -1 <= results["StreamForgetting/eval_phase/test_stream"] <= 1
    assert int(results["ConfusionMatrix_Stream/eval_phase/test_stream"].sum()) == len(TEST[1])
    steps, values = own.evaluator.get_all_metrics()[STREAM]
    assert steps == [2 * (place + 1) for place in range(5)]  # 16 images, a mini-batch of 16, 2 epochs
    assert len(values) == 5
    assert not any("train_phase" in name and "Acc" in name for name in results)
    assert "Top1_Acc_Stream" in (tmp_path / "log.txt").read_text()


def test_the_default_evaluator(capsys: pytest.CaptureFixture[str]) -> None:
    own, stream = EverbitStrategy(learner=new_learner(), train_epochs=1, eval_every=0), benchmark()
    own.train(stream.train_stream[0], eval_streams=[stream.test_stream])
    assert "Top1_Acc_Stream/eval_phase/test_stream" in capsys.readouterr().out
    assert isinstance(own.evaluator.loggers[0], InteractiveLogger)


def test_a_checkpoint_goes_on_as_if_never_stopped(tmp_path: Path) -> None:
    stream, whole, stopped = benchmark(), strategy(), strategy()
    for place, experience in enumerate(stream.train_stream):
        whole.train(experience)
        stopped, first = maybe_load_checkpoint(strategy(), tmp_path / "checkpoint")
        assert first == place
        stopped.train(experience)
        save_checkpoint(stopped, tmp_path / "checkpoint")
    assert stopped.learner.state == whole.learner.state
    assert stopped.eval(stream.test_stream) == whole.eval(stream.test_stream)


def test_a_copy_of_the_model_is_a_learner_of_its_own() -> None:
    stream, own = benchmark(), strategy()
    own.train(stream.train_stream[0])
    before = own.learner.state
    model = copy.deepcopy(own.model)
    own.train(stream.train_stream[1])
    assert model.learner.state == before != own.learner.state


def test_task_labels_do_no_harm() -> None:
    options = {"task_labels": True, "class_ids_from_zero_in_each_exp": False}
    own, alone = strategy(), strategy()
    for experience, plain in zip(benchmark(**options).train_stream, benchmark().train_stream, strict=True):
        own.train(experience)
        alone.train(plain)
    assert own.learner.state == alone.learner.state


def normalized(x: torch.Tensor) -> torch.Tensor:
    return (x - 0.5) / 0.5


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: strategy(eval_every=1), ConfigurationError, "choose 0 to evaluate"),
        (
            lambda: strategy(new_learner().partial_fit(TRAIN[0][:2], [0, 1], epochs=1)),
            ConfigurationError,
            "knows 2 classes",
        ),
        (
            lambda: strategy(new_learner(classes=3)).train(benchmark().train_stream),
            LabelError,
            r"Settings\(classes=\d+",
        ),
        (lambda: strategy(train_epochs=0).train(benchmark().train_stream), ConfigurationError, "epochs is 0"),
        (
            lambda: strategy().train(benchmark(True, train_transform=normalized).train_stream),
            ImageError,
            "leave Normalize out",
        ),
    ],
)
def test_mistakes_are_named(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
