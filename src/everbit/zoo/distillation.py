"""Pretraining with a teacher: a second head on the same features predicts the teacher's logits.

The loss is (1 - s) times that of the labels plus s T^2 KL(softmax(t / T) || softmax(z / T)): the teacher's share s, the
temperature T, the teacher's logits t, the second head's z (Hinton et al., arXiv 1503.02531). The second head lives in
the checkpoint only: the backbone that is exported does not have it.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from everbit.errors import ConfigurationError
from everbit.zoo.pretrain import Pretraining
from everbit.zoo.teacher import Teacher


class Student(nn.Module):
    """A network and a second linear head on the features that its own head reads.

    [N, C, H, W] -> logits of the network's own head, and of the second one, [N, teacher_classes].
    """

    def __init__(self, network: nn.Module, image: Tensor, teacher_classes: int) -> None:
        super().__init__()
        # The same layers but for the head, and not a copy of them.
        self.body = copy.copy(network)
        self.body._modules = {**network._modules, "head": nn.Identity()}
        self.head = network.get_submodule("head")
        with torch.no_grad():
            features = self.eval().body(image).shape[1]
        self.teacher_head = nn.Linear(features, teacher_classes)
        self.train()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.body(x)
        return self.head(features), self.teacher_head(features)


class Distillation(Pretraining):
    """A pretraining whose loss is also the distance to a teacher's answers on the same augmented images."""

    def __init__(self, teacher: Teacher, *options: Any, **more: Any) -> None:
        self.teacher = teacher
        super().__init__(*options, **more)

    def trained_module(self) -> Student:
        """The model with its second head."""
        height, width, channels = self.train[0].shape[1:]
        if channels not in (1, self.teacher.input_shape[2]):
            raise ConfigurationError(
                f"the teacher reads images of {self.teacher.input_shape[2]} channels, the student of {channels}: "
                "choose another teacher"
            )
        self.student = Student(self.model, torch.zeros(1, channels, height, width), self.teacher.classes)
        return self.student

    def state(self) -> dict[str, Any]:
        return {**super().state(), "teacher_head": self.student.teacher_head.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self.student.teacher_head.load_state_dict(state["teacher_head"])

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        share, temperature = self.recipe.teacher_share, self.recipe.temperature
        with self.autocast():
            logits, imitated = self.forward(images)
            target = self.teacher.logits(images)
        distance = functional.kl_div(
            functional.log_softmax(imitated.float() / temperature, 1),
            functional.log_softmax(target.float() / temperature, 1),
            reduction="batchmean",
            log_target=True,
        )
        return (1 - share) * self.label_loss(logits, labels) + share * temperature**2 * distance
