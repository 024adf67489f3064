"""Pretraining by bits: resumed runs, every optimizer, and a backbone that ordinary code reads."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from everbit.errors import ConfigurationError
from everbit.nn.low_memory_training.packed_signs import PackedSigns
from everbit.zoo.pretrain import Position, Pretraining, Recipe, evaluate
from everbit.zoo.registry import build
from everbit.zoo.weights import export_backbone, load_weights

CLASSES = 3
DESCRIPTION = {"architecture": "birealnet18", "width": 0.0625, "classes": CLASSES, "stem": "cifar", "data": "cifar10"}

pytestmark = pytest.mark.usefixtures("one_thread")


def tiny_images(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Random 8x8 images whose class is their brightness."""
    generator = np.random.default_rng(5)
    labels = generator.integers(0, CLASSES, count)
    noise = generator.integers(0, 60, (count, 8, 8, 3))
    return (noise + 90 * labels[:, None, None, None]).astype(np.uint8), labels


def new_run(checkpoint: Path, optimizer: str, precision: str, epochs: int = 2) -> Pretraining:
    torch.manual_seed(0)
    recipe = Recipe(
        epochs=epochs, batch=8, learning_rate=0.01, optimizer=optimizer, precision=precision, low_memory=True
    )
    model = build("birealnet18", width=0.0625, classes=CLASSES)
    return Pretraining(model, tiny_images(26), tiny_images(9), recipe, checkpoint, DESCRIPTION)


@pytest.mark.parametrize(("optimizer", "precision"), [("adam", "bfloat16"), ("sgd", "float32"), ("bop", "bfloat16")])
def test_a_resumed_run_gives_the_weights_of_an_uninterrupted_one(
    tmp_path: Path, optimizer: str, precision: str
) -> None:
    whole = new_run(tmp_path / "whole.pt", optimizer, precision)
    assert whole.run()

    def interrupt(position: Position) -> None:
        if (position.epoch, position.step) in ((0, 2), (1, 1)):
            os.kill(os.getpid(), signal.SIGTERM)

    for finished in (False, False, True):
        part = new_run(tmp_path / "parts.pt", optimizer, precision)
        part.resume()
        assert part.run(interrupt) is finished
    theirs = part.model.state_dict()
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, theirs[name]), name
    losses = [[entry["loss"] for entry in run.position.history] for run in (whole, part)]
    assert losses[0] == losses[1]
    if optimizer == "bop":
        weights = [weight for weight in part.model.parameters() if isinstance(weight, PackedSigns)]
        assert len(weights) == 16
        assert all(weight.bits is not None for weight in weights)


@pytest.mark.parametrize("optimizer", ["adam", "bop"])
def test_the_backbone_evaluates_as_the_trained_network(tmp_path: Path, optimizer: str) -> None:
    run = new_run(tmp_path / "run.pt", optimizer, "float32", epochs=6)
    run.run()
    losses = [entry["loss"] for entry in run.position.history]
    assert min(losses[3:]) < 0.8 * losses[0]
    export_backbone(tmp_path / "run.pt", tmp_path / "out.safetensors", drop_head=False)
    plain = load_weights(tmp_path / "out.safetensors")
    images, labels = tiny_images(9)
    assert evaluate(plain, images, labels) == evaluate(run.model, images, labels)


def test_options_that_do_not_go_together(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no optimizer 'bop' without --low-memory: choose one of adam, sgd"):
        Recipe(optimizer="bop")
    with pytest.raises(ConfigurationError, match=r"no optimizer 'adamw' in low memory: choose one of adam, sgd, bop"):
        Recipe(optimizer="adamw", low_memory=True)
    model = build("birealnet18", width=0.0625, classes=CLASSES)
    recipe = Recipe(epochs=1, batch=8, low_memory=True)
    with pytest.raises(ConfigurationError, match="--compiled does not go with --low-memory"):
        Pretraining(model, tiny_images(9), tiny_images(9), recipe, tmp_path / "run.pt", DESCRIPTION, compiled=True)
