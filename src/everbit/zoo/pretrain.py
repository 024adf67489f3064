"""Pretraining of a binary network on labeled images: Adam, one-cycle learning rate, resumable to the bit.

Order and augmentation are drawn from generators seeded by (seed, epoch, step), so the position in the training is the
whole random state: a resumed run sees exactly the images that an uninterrupted one would have seen.
"""

from __future__ import annotations

import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from everbit.data.augment import pad_crop_flip
from everbit.errors import ConfigurationError, FormatError
from everbit.nn import Approximations, low_memory, optimizers
from everbit.nn.binary import BinaryWeight
from everbit.whole_file import replacing
from everbit.whole_number import seed_number
from everbit.zoo.checkpoint import load_checkpoint, save_checkpoint
from everbit.zoo.inputs import to_input

PRECISIONS = ("float32", "bfloat16")
OPTIMIZERS: dict[tuple[bool, str], Callable[..., torch.optim.Optimizer]] = {
    (False, "adam"): partial(torch.optim.Adam, fused=True),
    (False, "sgd"): partial(torch.optim.SGD, momentum=0.9),
    (True, "adam"): optimizers.Adam,
    (True, "sgd"): partial(optimizers.SGD, momentum=0.9),
    (True, "bop"): optimizers.Bop,
}
"""By low memory or not, and name; each takes parameters and lr."""

LABEL_SMOOTHING = 0.05
EVALUATION_BATCH = 500

Labeled = tuple[np.ndarray, np.ndarray]  # images uint8 [N, H, W, 3], labels int64 [N]


@dataclass(frozen=True)
class Recipe:
    """How to train. Two runs with the same recipe and the same thread count give the same weights."""

    epochs: int = 12
    batch: int = 128
    learning_rate: float = 3e-3  # peak of the one-cycle schedule
    seed: int = 0
    precision: str = "float32"  # or "bfloat16", about twice as fast on a CPU that has it
    optimizer: str = "adam"  # a key of OPTIMIZERS
    low_memory: bool = False  # train by bits (everbit.nn.low_memory_training)
    pad_crop_flip: bool = True  # random shifts of 4 pixels and mirroring of the training images
    teacher: str | None = None  # the network that is distilled (everbit.zoo.distillation), and SHA-256 of its weights
    teacher_digest: str | None = None
    teacher_share: float = 0.5  # of the teacher in the loss, the rest is the labels'
    temperature: float = 2.0  # both networks' logits are divided by it

    def __post_init__(self) -> None:
        seed_number(self.seed)
        if self.epochs < 1 or self.batch < 2 or not self.learning_rate > 0:
            raise ConfigurationError(
                f"epochs {self.epochs}, batch {self.batch}, learning rate {self.learning_rate}: "
                "give at least 1 epoch, 2 images a batch and a rate above 0"
            )
        if self.precision not in PRECISIONS:
            raise ConfigurationError(f"unknown precision {self.precision!r}: choose one of {', '.join(PRECISIONS)}")
        if (self.low_memory, self.optimizer) not in OPTIMIZERS:
            names = [name for low_memory, name in OPTIMIZERS if low_memory == self.low_memory]
            where = "in low memory" if self.low_memory else "without --low-memory"
            raise ConfigurationError(f"no optimizer {self.optimizer!r} {where}: choose one of {', '.join(names)}")
        if not 0 < self.teacher_share <= 1 or not self.temperature > 0:
            raise ConfigurationError(
                f"teacher's share {self.teacher_share}, temperature {self.temperature}: "
                "give a share above 0 and up to 1, and a temperature above 0"
            )

    @property
    def autocast(self) -> bool:
        """Whether PyTorch casts; low-memory layers have the precision for themselves."""
        return self.precision == "bfloat16" and not self.low_memory


@dataclass
class Position:
    """Where a pretraining stands. `history` has one entry a finished epoch: loss, val_top1 (fraction), seconds."""

    epoch: int = 0
    step: int = 0  # steps done in this epoch
    loss_sum: float = 0.0  # over the steps of this epoch
    seconds: float = 0.0  # of this epoch, over all runs
    history: list[dict[str, float]] = field(default_factory=list)


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets, instead of ending the process in the middle of a step."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread may install handlers
        return
    previous = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def evaluate(model: nn.Module, images: np.ndarray, labels: np.ndarray, autocast: bool = False) -> float:
    """Top-1 accuracy, a fraction of 1, of the model in evaluation mode (restored after); autocast: in bfloat16."""
    training = model.training
    model.eval()
    correct = 0
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        for start in range(0, len(images), EVALUATION_BATCH):
            logits = model(to_input(images[start : start + EVALUATION_BATCH]))
            correct += int((logits.argmax(1).numpy() == labels[start : start + EVALUATION_BATCH]).sum())
    model.train(training)
    return correct / len(images)


class Pretraining:
    """One training run: model, optimizer and schedule at a position.

    `description` says what the model is (architecture, width, classes, stem, data); it goes into the checkpoint, and a
    checkpoint of another description or recipe is refused. `compiled` fuses the network by torch.compile first, which
    is twice as fast, needs a C++ compiler and rounds differently.
    """

    def __init__(
        self,
        model: nn.Module,
        train: Labeled,
        validation: Labeled,
        recipe: Recipe,
        checkpoint: Path,
        description: dict[str, Any],
        compiled: bool = False,
    ) -> None:
        self.model, self.train, self.validation = model, train, validation
        self.recipe, self.checkpoint, self.description = recipe, checkpoint, description
        self.steps = len(train[0]) // recipe.batch  # the rest of an epoch is left out: every batch has one shape
        if self.steps < 1:
            raise ConfigurationError(f"{len(train[0])} training images are fewer than one batch of {recipe.batch}")
        if compiled and recipe.low_memory:
            raise ConfigurationError(
                "--compiled does not go with --low-memory, whose layers run as they are: leave it out"
            )
        self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if recipe.low_memory:
            latent_bits = 1 if recipe.optimizer == "bop" else 16
            low_memory(self.model, Approximations(dtype=recipe.precision, latent_bits=latent_bits))
        trained = self.trained_module()
        self.forward: Callable[[Tensor], Any] = torch.compile(trained) if compiled else trained
        self.optimizer = OPTIMIZERS[recipe.low_memory, recipe.optimizer](trained.parameters(), lr=recipe.learning_rate)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, recipe.learning_rate, total_steps=self.steps * recipe.epochs, cycle_momentum=False
        )
        latent = [] if recipe.low_memory else model.modules()  # low-memory layers clip by themselves
        self.binary = [module for module in latent if isinstance(module, BinaryWeight)]
        self.position = Position()

    def trained_module(self) -> nn.Module:
        """What a step runs and the optimizer changes: the model."""
        return self.model

    def state(self) -> dict[str, Any]:
        """All that a checkpoint holds."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "position": asdict(self.position),
            "recipe": asdict(self.recipe),
            "description": self.description,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Take over the state of a checkpoint; raises KeyError, RuntimeError, TypeError or ValueError if it misfits."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.position = Position(**state["position"])

    def save(self) -> None:
        """Write the checkpoint."""
        save_checkpoint(self.checkpoint, self.state())

    def resume(self) -> None:
        """Continue from the checkpoint where there is one. Raises ConfigurationError if it is of another run."""
        if not self.checkpoint.exists():
            return
        state = load_checkpoint(self.checkpoint)
        try:
            stored = asdict(Recipe(**state["recipe"])) | state["description"]
            ours = asdict(self.recipe) | self.description
            others = [name for name in stored | ours if stored.get(name) != ours.get(name)]
            if others:
                changes = "; ".join(f"{name} {stored.get(name)}, now {ours.get(name)}" for name in others)
                raise ConfigurationError(
                    f"{self.checkpoint} belongs to another run ({changes}): use the same options, or another "
                    "checkpoint path"
                )
            self.load(state)
        except ConfigurationError:
            raise
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise FormatError(
                f"{self.checkpoint} does not fit this version of everbit: delete it to start anew"
            ) from error

    def epoch_order(self) -> np.ndarray:
        """Indices of all training images in the order of the current epoch."""
        return np.random.default_rng([self.recipe.seed, self.position.epoch, 0]).permutation(len(self.train[0]))

    def batch(self, order: np.ndarray) -> tuple[Tensor, Tensor]:
        """The augmented batch at the current position, of the epoch's order."""
        position, size = self.position, self.recipe.batch
        chosen = order[position.step * size : (position.step + 1) * size]
        generator = np.random.default_rng([self.recipe.seed, position.epoch, 1 + position.step])
        images = self.train[0][chosen]
        if self.recipe.pad_crop_flip:
            images = pad_crop_flip(images, generator)
        return to_input(images), torch.from_numpy(self.train[1][chosen])

    def autocast(self) -> torch.autocast:
        """The context that computes in the recipe's precision."""
        return torch.autocast("cpu", torch.bfloat16, enabled=self.recipe.autocast)

    def label_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross entropy with smoothed labels."""
        return functional.cross_entropy(logits.float(), labels, label_smoothing=LABEL_SMOOTHING)

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """What a step makes smaller."""
        with self.autocast():
            logits = self.forward(images)
        return self.label_loss(logits, labels)

    def update(self, images: Tensor, labels: Tensor) -> float:
        """One step of the optimizer; returns the loss."""
        loss = self.loss(images, labels)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.schedule.step()
        for module in self.binary:
            module.clip_latent()
        value = float(loss.detach())
        if not math.isfinite(value):
            raise ConfigurationError(
                f"the loss became {value} in epoch {self.position.epoch + 1}: use a learning rate below "
                f"{self.recipe.learning_rate:g} (the checkpoint still holds the last sound state)"
            )
        return value

    def finish_epoch(self) -> None:
        """Measure, log and begin the next epoch. The last one is measured in float32, as the weights will be used."""
        position = self.position
        last = position.epoch == self.recipe.epochs - 1
        started = time.monotonic()
        accuracy = evaluate(self.model, *self.validation, autocast=self.recipe.autocast and not last)
        entry = {
            "epoch": position.epoch + 1,
            "loss": position.loss_sum / self.steps,
            "val_top1": accuracy,
            "seconds": position.seconds + time.monotonic() - started,
        }
        self.position = Position(epoch=position.epoch + 1, history=[*position.history, entry])
        self.save()
        with replacing(self.checkpoint.with_suffix(".jsonl")) as log:
            log.write_text("".join(json.dumps(line) + "\n" for line in self.position.history))

    def run(self, report: Callable[[Position], None] = lambda position: None, save_every: float = 300.0) -> bool:
        """Train to the end, with a checkpoint every `save_every` seconds and after each epoch.

        `report` is called after each step and each epoch. Returns False where Ctrl-C or SIGTERM stopped it, after a
        checkpoint.
        """
        self.model.train()
        saved = time.monotonic()
        with _stop_signals() as stop:
            while self.position.epoch < self.recipe.epochs:
                order = self.epoch_order()
                while self.position.step < self.steps:
                    started = time.monotonic()
                    self.position.loss_sum += self.update(*self.batch(order))
                    self.position.step += 1
                    self.position.seconds += time.monotonic() - started
                    report(self.position)
                    if stop.is_set() or time.monotonic() - saved > save_every:
                        self.save()
                        saved = time.monotonic()
                    if stop.is_set():
                        return False
                self.finish_epoch()
                report(self.position)
        return True
