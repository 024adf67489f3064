"""The learner people use: the engine behind scikit-learn's words."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from everbit import engine
from everbit.compile.image import program_image
from everbit.compile.program import Program
from everbit.data.images import as_images, as_labels
from everbit.errors import CapacityError, ConfigurationError, FormatError
from everbit.formats.model_file import load_program, program_bytes, program_from_bytes
from everbit.learner.engine_options import engine_options
from everbit.learner.labels import index_labels
from everbit.learner.learner_file import LearnerContent, read_learner_file, write_learner_file
from everbit.learner.protocol import Progress
from everbit.learner.settings import MOST_SLOTS, Settings, parse_bytes, program_widths
from everbit.quantize.widths import Widths
from everbit.whole_number import whole_number
from everbit.zoo.packaged import packaged_model

LOGIT_UNIT = 2.0**-16

_LOWER = "lower classes, experience_images, batch_new or batch_replayed, or cut the model later"


class Learner:
    """A binary network that learns new classes, in integers.

    Example:
        learner = Learner.open("birealnet18", memory="16MB")
        learner.partial_fit(images, labels)
        learner.predict(other_images)
        learner.save("kitchen.learner")

    Every method raises a class of `everbit.errors` for a user's mistake, and then has changed nothing.
    """

    def __init__(
        self,
        program: Program,
        settings: Settings | None = None,
        widths: Widths | str | None = None,
        *,
        replay_slots: int | None = None,
    ) -> None:
        """replay_slots: patterns that a saved learner's replay memory holds; None for as many as the settings allow."""
        self.program = program
        self.settings = settings or Settings()
        self.widths = program_widths(program.q_f, program.latent_bits, widths)
        self._labels: list[Hashable] = list(program.head.labels)
        self._classes = len(self._labels) + self.settings.classes
        self._image = program_image(program)
        self._experience_images = self.settings.experience_images
        if replay_slots is None:
            self._replay_slots = self._planned_slots()
        else:
            self._replay_slots = whole_number("replay_slots", replay_slots, 0, MOST_SLOTS)
        self._native = self._start(self._replay_slots, self._experience_images)

    @classmethod
    def open(
        cls,
        model: str | Path,
        *,
        memory: str | int | None = None,
        widths: Widths | str | None = None,
        settings: Settings | None = None,
        seed: int | None = None,
    ) -> Learner:
        """A new learner on a model: the path of an .everbit file, or the name of one in the package.

        memory: most bytes the learner may take on one thread, such as "16MB"; each further thread takes scratch of its
        own beside them (`memory_use` has the sum). widths: such as "8,16,16,1". seed: see Settings.
        """
        settings = settings or Settings()
        if memory is not None:
            settings = replace(settings, memory=parse_bytes(memory))
        if seed is not None:
            settings = replace(settings, seed=seed)
        return cls(load_program(packaged_model(model)), settings, widths)

    @property
    def classes_(self) -> list[Hashable]:
        """Labels seen so far, in the order they were first seen."""
        return list(self._labels)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Height, width, channels of the images it takes; files are resized to it."""
        return self.program.input_shape

    @property
    def memory_use(self) -> dict[str, int]:
        """Bytes by purpose: `total` is the whole of the learner's memory, `replay` its latents, labels and counters."""
        return dict(self._native.memory())

    @property
    def state(self) -> bytes:
        """All that learning changes: the same bytes on every machine for the same program, settings and images."""
        return bytes(self._native.state())

    @property
    def engine_options(self) -> dict[str, object]:
        """What the engine is told: its options by name, as the C API has them."""
        return self._options(self._replay_slots, self._experience_images)

    def partial_fit(
        self, images: object, labels: Sequence[Hashable], *, epochs: int | None = None, progress: Progress | None = None
    ) -> Learner:
        """Learns one experience.

        images: uint8 [N, H, W, C], one image, or paths of image files. labels: one hashable label an image. epochs:
        passes over the images, 1 to 65536, None for those of the settings. progress: called after each mini-batch; what
        it raises ends the experience and changes nothing. Raises ImageError, LabelError, CapacityError or
        ConfigurationError.
        """
        epochs = self.settings.epochs_or(epochs)
        batch = as_images(images, self.image_shape)
        indices, known = index_labels(as_labels(labels, len(batch)), self._labels, self._classes)
        self._make_room(len(batch))
        before, labels_before = self.state, self._labels
        try:
            self._native.add(batch, indices)
            steps = self._native.begin_training(epochs)
            for step in range(1, steps + 1):
                right, patterns = self._native.train_step()
                if progress is not None:
                    progress(step, steps, right / patterns)
            self._native.end_experience()
            self._labels = known
        except BaseException:
            self._native.restore(before)  # an interrupted experience leaves the learner as it was
            self._labels = labels_before
            raise
        return self

    def predict(self, images: object) -> list[Hashable]:
        """The most likely label of each image. Raises ConfigurationError before the first experience."""
        return [self._labels[index] for index in self.logits(images).argmax(axis=1)]

    def predict_proba(self, images: object) -> NDArray[np.float64]:
        """Probabilities [N, len(classes_)], columns in the order of `classes_`; from the engine's integer logits."""
        logits = self.logits(images).astype(np.float64) * LOGIT_UNIT
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities: NDArray[np.float64] = exponentials / exponentials.sum(axis=1, keepdims=True)
        return probabilities

    def logits(self, images: object) -> NDArray[np.int32]:
        """The engine's own integers [N, len(classes_)], in units of 2^-16; columns in the order of `classes_`."""
        self._require_classes()
        return self._native.logits(as_images(images, self.image_shape))[:, : len(self._labels)]

    def latents(self, images: object) -> NDArray[np.uint8]:
        """The latents of images as the replay memory stores them, uint8 [N, bytes]: learning never changes them.

        Values [H, W, C] of the cut one after another, each of the program's latent bits, lowest bit first.
        """
        return self._native.encode(as_images(images, self.image_shape))

    def predict_latents(self, latents: NDArray[np.uint8]) -> list[Hashable]:
        """The most likely label of each of some images' `latents`: what `predict` gives for the images."""
        self._require_classes()
        logits = self._native.latent_logits(latents)[:, : len(self._labels)]
        return [self._labels[index] for index in logits.argmax(axis=1)]

    def save(self, path: str | Path) -> None:
        """Writes the learner, model included, to one file, whole or not at all."""
        content = LearnerContent(
            model=program_bytes(self.program),
            state=self.state,
            settings=asdict(self.settings),
            widths=str(self.widths),
            replay_slots=self._replay_slots,
            labels=self._labels,
        )
        write_learner_file(Path(path), content)

    @classmethod
    def load(cls, path: str | Path) -> Learner:
        """A saved learner, exactly as it was. Raises FormatError for a file that is none."""
        engine.require_environment()
        content = read_learner_file(Path(path))
        program = program_from_bytes(content.model, str(path))
        try:
            learner = cls(program, Settings(**content.settings), content.widths, replay_slots=content.replay_slots)
            learner._native.restore(content.state)
            _, learner._labels = index_labels(content.labels, [], learner._classes)
            known = [learner._native.known(index) for index in range(learner._classes)]
            expected = [index < len(content.labels) for index in range(learner._classes)]
            if learner._labels != content.labels or known != expected:
                raise ValueError("its labels are not those of its state")
        except (TypeError, ValueError) as error:
            raise FormatError(f"{path} is damaged ({error}): use an earlier copy of it") from error
        return learner

    def _require_classes(self) -> None:
        if not self._labels:
            raise ConfigurationError("the learner knows no class yet: call partial_fit first")

    def _options(self, replay_slots: int, experience_images: int) -> dict[str, object]:
        """What the engine is told."""
        return engine_options(self.settings, self.widths, self._classes, replay_slots, experience_images)

    def _start(self, replay_slots: int, experience_images: int, threads: int | None = None) -> engine.NativeLearner:
        """threads: None for as many as `engine.threads()` says."""
        options = self._options(replay_slots, experience_images)
        if threads is not None:
            options["threads"] = threads
        try:
            return engine.NativeLearner(self._image, options)
        except ValueError as error:
            raise ConfigurationError(f"the engine refuses these settings: {error}") from error
        except MemoryError as error:
            raise CapacityError(f"this machine has too little memory for the learner: {_LOWER}") from error

    def _planned_slots(self) -> int:
        """Patterns that the replay memory holds: at least one a class where there is a limit of memory."""
        settings = self.settings
        if settings.memory is None:
            return settings.replay_slots
        height, width, channels = self.program.latent_shape
        pattern = (height * width * channels * self.program.latent_bits + 7) // 8 + 2
        # Of one thread, so that what is learned does not depend on how many there are.
        bare = self._start(0, settings.experience_images, threads=1).memory()["total"]
        alignment = 128  # of the latents and of the labels
        least = bare + (settings.classes * pattern + alignment if settings.rule.replay else 0)
        if settings.memory < least:
            raise CapacityError(
                f"{settings.memory:,} bytes are too few: this learner takes {bare:,} before it replays anything; "
                f"give at least {least:,}, or {_LOWER}"
            )
        return min((settings.memory - bare - alignment) // pattern, MOST_SLOTS) if settings.rule.replay else 0

    def _make_room(self, count: int) -> None:
        """Plans the engine anew, in the same state, for an experience larger than any before."""
        if count <= self._experience_images:
            return
        if self.settings.memory is not None:
            raise CapacityError(
                f"an experience of {count} images does not fit: the memory limit was planned for "
                f"{self._experience_images}; pass them in smaller parts, or start with "
                f"Settings(experience_images={count})"
            )
        native = self._start(self._replay_slots, count)
        native.restore(self.state)
        self._native, self._experience_images = native, count
