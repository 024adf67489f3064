"""The float baseline: a program learned by PyTorch in float32, by the same rules as the engine's integers.

Same latents, replay memory, mini-batches, CWR* and learning rates: the engine encodes and draws, so that a seed shows
both the same patterns in the same order, and only the arithmetic of learning differs. On one machine, with one number
of threads, a seed gives one result.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from everbit import engine
from everbit.compile.program import Program
from everbit.data.images import as_images, as_labels
from everbit.errors import ConfigurationError, FormatError
from everbit.formats.labels import label_from_json, label_to_json
from everbit.formats.model_file import program_bytes, program_from_bytes
from everbit.learner.engine_options import sampler_options
from everbit.learner.float_head import FloatHead
from everbit.learner.float_latent import LATENTS
from everbit.learner.float_network import FloatNetwork
from everbit.learner.labels import index_labels
from everbit.learner.protocol import Progress
from everbit.learner.settings import Settings, refuse_memory_limit
from everbit.learner.tensor_file import read_tensor_file, write_tensor_file

KIND = "float"
_LATENTS_AT_ONCE = 256


class FloatLearner:
    """A binary network that learns new classes in float32, see `everbit.learner.protocol.ContinualLearner`.

    latent: what it learns from. "engine": the engine's latents; "program": latents of the program's bits, but the whole
    network in float32; "float": float32 latents too, latent replay in floating point throughout, AR1* without its
    penalty on the weights (R21's and V24's float baseline). Settings as for `Learner`, except that a limit of memory
    needs the engine. Errors as there; after one, nothing has changed.
    """

    def __init__(self, program: Program, settings: Settings | None = None, *, latent: str = "engine") -> None:
        self.program = program
        self.settings = settings or Settings()
        refuse_memory_limit(self.settings, "the float learner")
        if latent not in LATENTS:
            raise ConfigurationError(f"unknown latent {latent!r}: choose one of {', '.join(LATENTS)}")
        self.latent = latent
        self._labels: list[Hashable] = list(program.head.labels)
        self._classes = len(self._labels) + self.settings.classes
        self._network = FloatNetwork(program, latent)
        self._head = FloatHead(self._classes, program.features, self.settings.rule.cwr)
        self._head.know(program.head)
        sampler = self._sampler(1)
        self._replay_bytes = sampler.replay_bytes
        self._sampled = torch.from_numpy(sampler.state())  # the replay memory and the draws to come

    @property
    def classes_(self) -> list[Hashable]:
        """Labels seen so far, in the order they were first seen."""
        return list(self._labels)

    @property
    def memory_use(self) -> dict[str, int]:
        """Bytes by purpose: `replay` of latents, labels and counters; `total` of these, all parameters and the head.

        What PyTorch takes for activations and gradients comes on top.
        """
        head = [self._head.cw, self._head.tw, self._head.past]
        total = self._replay_bytes + self._network.bytes + sum(t.numel() * t.element_size() for t in head)
        return {"replay": self._replay_bytes, "total": total}

    def partial_fit(
        self, images: object, labels: Sequence[Hashable], *, epochs: int | None = None, progress: Progress | None = None
    ) -> FloatLearner:
        """Learns one experience, as `Learner.partial_fit`."""
        epochs = self.settings.epochs_or(epochs)
        batch = as_images(images, self.program.input_shape)
        indices, known = index_labels(as_labels(labels, len(batch)), self._labels, self._classes)
        before, labels_before = {name: tensor.clone() for name, tensor in self._state().items()}, self._labels
        try:
            self._learn(self._network.encode(batch), indices, epochs, progress)
            self._labels = known
        except BaseException:
            self._restore(before)  # an interrupted experience leaves the learner as it was
            self._labels = labels_before
            raise
        return self

    def predict(self, images: object) -> list[Hashable]:
        """The most likely label of each image. Raises ConfigurationError before the first experience."""
        return self.predict_latents(self.latents(images))

    def predict_proba(self, images: object) -> NDArray[np.float64]:
        """Probabilities [N, len(classes_)], columns in the order of `classes_`."""
        logits = torch.from_numpy(self._known_logits(self.latents(images))).double()
        probabilities: NDArray[np.float64] = logits.softmax(dim=1).numpy()
        return probabilities

    def latents(self, images: object) -> NDArray[np.uint8]:
        """The latents of images as the replay memory stores them, uint8 [N, bytes]: learning never changes them."""
        return self._network.encode(as_images(images, self.program.input_shape))

    def predict_latents(self, latents: NDArray[np.uint8]) -> list[Hashable]:
        """The most likely label of each of some images' `latents`: what `predict` gives for the images."""
        return [self._labels[index] for index in self._known_logits(latents).argmax(axis=1)]

    def save(self, path: str | Path) -> None:
        """Writes the learner, model included, to one safetensors file, whole or not at all."""
        facts = {
            "settings": asdict(self.settings),
            "latent": self.latent,
            "labels": [label_to_json(label) for label in self._labels],
        }
        model = np.frombuffer(program_bytes(self.program), np.uint8)
        state = {name: tensor.numpy() for name, tensor in self._state().items()}
        write_tensor_file(Path(path), KIND, facts, {"model": model, **state})

    @classmethod
    def load(cls, path: str | Path) -> FloatLearner:
        """A saved learner, exactly as it was. Raises FormatError for a file that is none."""
        engine.require_environment()
        facts, stored = read_tensor_file(Path(path), KIND)
        try:
            program = program_from_bytes(stored.pop("model").tobytes(), str(path))
            learner = cls(program, Settings(**facts["settings"]), latent=facts["latent"])
            learner._restore({name: torch.from_numpy(array) for name, array in stored.items()})
            learner._name_classes([label_from_json(label) for label in facts["labels"]])
        except (LookupError, TypeError, ValueError, MemoryError) as error:
            raise FormatError(f"{path} is damaged ({error}): use an earlier copy of it") from error
        return learner

    def _learn(
        self, latents: NDArray[np.uint8], labels: NDArray[np.int32], epochs: int, progress: Progress | None
    ) -> None:
        """One experience of stored latents [N, bytes] and class indices [N]: training, consolidation, replay memory."""
        sampler, optimizer = self._sampler(len(latents)), self._optimizer()
        sampler.restore(self._sampled.numpy())
        sampler.add(latents, labels)
        steps = sampler.begin(epochs)
        self._head.begin_experience(sampler.present())
        for step in range(1, steps + 1):
            batch, targets = sampler.draw()
            right = self._step(optimizer, batch, torch.from_numpy(targets))
            if progress is not None:
                progress(step, steps, right / len(batch))
        self._head.end_experience(sampler.counts())
        sampler.end()
        self._sampled.copy_(torch.from_numpy(sampler.state()))

    def _sampler(self, experience_images: int) -> engine.Sampler:
        """A new one. Raises ConfigurationError for a replay memory that cannot be."""
        slots = self.settings.replay_slots
        options = sampler_options(self.settings, self._classes, slots, experience_images)
        try:
            return engine.Sampler(options, self._network.latent.stored_bytes)
        except ValueError as error:
            raise ConfigurationError(f"the engine refuses these settings: {error}") from error

    def _step(self, optimizer: torch.optim.Optimizer, batch: NDArray[np.uint8], targets: Tensor) -> int:
        """One step of SGD; returns how many of the batch were right before it."""
        with torch.set_grad_enabled(self.settings.rule.train_body):
            features = self._network.features(batch)
        loss, right = self._head.loss(features, targets)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        self._network.clip_latent_weights()
        return right

    def _optimizer(self) -> torch.optim.Optimizer:
        kinds = self._network.learnable_by_kind() if self.settings.rule.train_body else {}
        kinds["head"] = [self._head.tw]
        rates = self.settings.learning_rates
        return torch.optim.SGD([{"params": kinds[kind], "lr": rates[kind]} for kind in kinds])

    @torch.no_grad()
    def _known_logits(self, stored: NDArray[np.uint8]) -> NDArray[np.float32]:
        if not self._labels:
            raise ConfigurationError("the learner knows no class yet: call partial_fit first")
        parts = [
            self._head.logits(self._network.features(stored[first : first + _LATENTS_AT_ONCE]))
            for first in range(0, len(stored), _LATENTS_AT_ONCE)
        ]
        logits: NDArray[np.float32] = torch.cat(parts)[:, : len(self._labels)].numpy()
        return logits

    def _state(self) -> dict[str, Tensor]:
        """All that learning changes, by name; the tensors themselves."""
        return {
            **self._network.learnable_state(),
            **{f"head.{name}": tensor for name, tensor in self._head.state().items()},
            "sampler": self._sampled,
        }

    def _name_classes(self, labels: list[Hashable]) -> None:
        """Takes saved labels over. Raises ValueError where they are not those of the state."""
        _, self._labels = index_labels(labels, [], self._classes)
        expected = [index < len(labels) for index in range(self._classes)]
        if self._labels != labels or (self._head.past > 0).tolist() != expected:
            raise ValueError("its labels are not those of its state")

    def _restore(self, state: dict[str, Tensor]) -> None:
        """Takes a state over. Raises ValueError where it is of another program or other settings."""
        own = self._state()
        if own.keys() != state.keys():
            raise ValueError(f"tensors missing or unknown: {', '.join(sorted(own.keys() ^ state.keys()))}")
        for name, tensor in own.items():
            if state[name].shape != tensor.shape or state[name].dtype != tensor.dtype:
                raise ValueError(f"{name} is {state[name].dtype} {list(state[name].shape)}, not {list(tensor.shape)}")
        self._sampler(1).restore(state["sampler"].numpy())  # raises for a replay memory that cannot be
        for name, tensor in own.items():
            tensor.copy_(state[name])
