from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from everbit.errors import ConfigurationError, FormatError
from everbit.nn import BinaryConv2d
from everbit.zoo.checkpoint import save_checkpoint
from everbit.zoo.model_card import model_card
from everbit.zoo.pretrain import Position, Pretraining, Recipe, evaluate
from everbit.zoo.registry import build
from everbit.zoo.weights import export_backbone, load_weights

CLASSES = 3
DESCRIPTION = {"architecture": "birealnet18", "width": 0.0625, "classes": CLASSES, "stem": "cifar", "data": "cifar10"}
RECIPE = Recipe(epochs=2, batch=8, learning_rate=0.01)

pytestmark = pytest.mark.usefixtures("one_thread")


def tiny_images(count: int = 26) -> tuple[np.ndarray, np.ndarray]:
    """Random 8x8 images whose class is their brightness."""
    generator = np.random.default_rng(5)
    labels = generator.integers(0, CLASSES, count)
    noise = generator.integers(0, 60, (count, 8, 8, 3))
    return (noise + 90 * labels[:, None, None, None]).astype(np.uint8), labels


def new_run(checkpoint: Path, recipe: Recipe = RECIPE) -> Pretraining:
    torch.manual_seed(0)
    model = build("birealnet18", width=0.0625, classes=CLASSES)
    return Pretraining(model, tiny_images(), tiny_images(9), recipe, checkpoint, DESCRIPTION)


def assert_same_weights(first: Pretraining, second: Pretraining) -> None:
    theirs = second.model.state_dict()
    for name, tensor in first.model.state_dict().items():
        assert torch.equal(tensor, theirs[name]), name


def test_a_resumed_run_gives_the_weights_of_an_uninterrupted_one(tmp_path: Path) -> None:
    whole = new_run(tmp_path / "whole.pt")
    assert whole.run()

    def interrupt(position: Position) -> None:
        if (position.epoch, position.step) in ((0, 2), (1, 1)):
            os.kill(os.getpid(), signal.SIGTERM)

    for finished in (False, False, True):
        part = new_run(tmp_path / "parts.pt")
        part.resume()
        assert part.run(interrupt) is finished
    assert_same_weights(whole, part)
    keys = ("epoch", "loss", "val_top1")
    whole_log, part_log = (
        [[json.loads(line)[key] for key in keys] for line in (tmp_path / name).read_text().splitlines()]
        for name in ("whole.jsonl", "parts.jsonl")
    )
    assert whole_log == part_log
    assert len(whole_log) == 2
    assert not list(tmp_path.glob("*.partial"))


def test_finished_run_does_nothing_more(tmp_path: Path) -> None:
    first = new_run(tmp_path / "run.pt")
    first.run()
    again = new_run(tmp_path / "run.pt")
    again.resume()
    assert again.run()
    assert_same_weights(first, again)


def test_loss_falls_and_latents_stay_clipped(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run.pt", Recipe(epochs=12, batch=8, learning_rate=0.01, pad_crop_flip=False))
    run.run()
    losses = [entry["loss"] for entry in run.position.history]
    assert losses[-1] < 0.7 * losses[0]
    for module in run.model.modules():
        if isinstance(module, BinaryConv2d):
            assert module.weight.abs().max() <= 1


def test_evaluate_counts_correct_predictions() -> None:
    class Brightness(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.stack([-x.mean((1, 2, 3)), x.mean((1, 2, 3))], 1)

    images = np.repeat(np.array([0, 255, 0, 255], np.uint8), 48).reshape(4, 4, 4, 3)
    assert evaluate(Brightness(), images, np.array([0, 1, 1, 1])) == 0.75


def test_bfloat16_trains(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run.pt", Recipe(epochs=1, batch=8, precision="bfloat16"))
    assert run.run()
    assert run.model.stem.conv.weight.dtype == torch.float32


def test_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    new_run(tmp_path / "run.pt").save()
    with pytest.raises(ConfigurationError, match="belongs to another run"):
        new_run(tmp_path / "run.pt", Recipe(epochs=3, batch=8)).resume()


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", None])
def test_damaged_checkpoint(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "run.pt"
    run = new_run(path)
    run.save()
    path.write_bytes(path.read_bytes()[:-100] if content is None else content)
    with pytest.raises(FormatError, match="delete it to start anew"):
        run.resume()


def test_foreign_checkpoint(tmp_path: Path) -> None:
    torch.save({"model": {}}, tmp_path / "run.pt")
    with pytest.raises(FormatError, match="no checkpoint of this version"):
        new_run(tmp_path / "run.pt").resume()


def test_diverged_loss_is_reported_and_not_saved(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run.pt")
    run.model.head.bias.data.fill_(float("nan"))
    with pytest.raises(ConfigurationError, match="learning rate below"):
        run.run()
    assert not (tmp_path / "run.pt").exists()


@pytest.mark.parametrize("options", [{"epochs": 0}, {"batch": 1}, {"learning_rate": 0.0}, {"precision": "int8"}])
def test_wrong_recipe(options: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        Recipe(**options)


def test_too_few_images(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="26 training images are fewer than one batch of 100"):
        new_run(tmp_path / "run.pt", Recipe(batch=100))


def test_export_and_model_card(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run.pt")
    run.save()
    with pytest.raises(FormatError, match="first epoch"):
        export_backbone(tmp_path / "run.pt", tmp_path / "out.safetensors")
    run.run()
    description = export_backbone(tmp_path / "run.pt", tmp_path / "out.safetensors")
    assert description.epochs == 2
    assert description.top1 == run.position.history[-1]["val_top1"]
    assert load_weights(tmp_path / "out.safetensors")(torch.zeros(1, 3, 8, 8)).shape == (1, 32)
    card = model_card(description)
    assert f"{description.top1:.1%}" in card
    assert "2 of 2 epochs" in card
    assert "Krizhevsky" in card


def test_a_checkpoint_of_an_everbit_without_teachers_resumes(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run.pt")
    state = run.state()
    for name in ("teacher", "teacher_digest", "teacher_share", "temperature"):
        del state["recipe"][name]
    save_checkpoint(tmp_path / "run.pt", state)
    run.resume()
    run.run()
    description = export_backbone(tmp_path / "run.pt", tmp_path / "out.safetensors")
    assert description.teacher is None
    assert "teacher" not in model_card(description)


def test_checkpoint_with_other_tensors(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run.pt")
    run.model.add_module("head", torch.nn.Linear(32, CLASSES + 1))
    run.save()
    with pytest.raises(FormatError, match="does not fit this version"):
        new_run(tmp_path / "run.pt").resume()
