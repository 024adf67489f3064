"""Nearest class mean on stored latents: the cheapest way to learn continually, and a strong baseline.

The engine computes the latents, in integers; what is learned are sums of them, so neither the order of images nor the
way they are parted into experiences matters, and nothing is ever forgotten.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from everbit import engine
from everbit.compile.program import Program
from everbit.data.images import as_images, as_labels
from everbit.errors import CapacityError, ConfigurationError, FormatError
from everbit.formats.labels import label_from_json, label_to_json
from everbit.formats.model_file import program_bytes, program_from_bytes
from everbit.learner.class_means import ClassMeans, unpack_codes
from everbit.learner.labels import index_labels
from everbit.learner.latent_encoder import latent_encoder
from everbit.learner.protocol import Progress
from everbit.learner.settings import Settings, refuse_memory_limit
from everbit.learner.tensor_file import Tensors, read_tensor_file, require_tensor, write_tensor_file
from everbit.quantize.widths import Widths

KIND = "nearest-mean"
MOST_BITS = 8
_LATENTS_AT_ONCE = 256


class NearestMeanLearner:
    """Classifies by the nearest mean of latent codes, see `everbit.learner.protocol.ContinualLearner`.

    Of the settings it heeds classes and batch_new, the images between two reports of progress. Classes that the program
    knows are rows of its head and no means: they are not taken over. Errors as for `Learner`; after one, nothing has
    changed.
    """

    def __init__(self, program: Program, settings: Settings | None = None, widths: Widths | str | None = None) -> None:
        self.program = program
        self.settings = settings or Settings()
        refuse_memory_limit(self.settings, "the nearest-mean learner")
        self._bits, self._values = program.latent_bits, prod(program.latent_shape)
        if self._bits > MOST_BITS:
            raise ConfigurationError(
                f"means of {self._bits}-bit latents are not exact: compile the model with latents of {MOST_BITS} bits "
                "or fewer"
            )
        self._encoder = latent_encoder(program, widths)
        self.widths = self._encoder.widths
        self._labels: list[Hashable] = []
        self._means = ClassMeans(self.settings.classes, self._values, self._bits)

    @property
    def classes_(self) -> list[Hashable]:
        """Labels seen so far, in the order they were first seen."""
        return list(self._labels)

    @property
    def memory_use(self) -> dict[str, int]:
        """Bytes by purpose: `replay` of sums and counts; `total` of these and of the engine that computes the latents.

        The engine holds the learnable part too, though nothing here runs it.
        """
        return {"replay": self._means.bytes, "total": self._means.bytes + self._encoder.memory_use["total"]}

    def partial_fit(
        self, images: object, labels: Sequence[Hashable], *, epochs: int | None = None, progress: Progress | None = None
    ) -> NearestMeanLearner:
        """Learns one experience, as `Learner.partial_fit`, in one pass whatever `epochs` says.

        Raises CapacityError where a class gets too many patterns for exact sums.
        """
        self.settings.epochs_or(epochs)
        batch = as_images(images, self.program.input_shape)
        indices, known = index_labels(as_labels(labels, len(batch)), self._labels, self.settings.classes)
        means = self._means.copy()
        most = int((means.counts + np.bincount(indices, minlength=len(means.counts))).max())
        if most > means.most_patterns:
            raise CapacityError(
                f"{most:,} patterns of one class are too many for exact sums: teach at most {means.most_patterns:,}"
            )
        starts = range(0, len(batch), self.settings.batch_new)
        for step, first in enumerate(starts, 1):
            part = slice(first, first + self.settings.batch_new)
            codes, classes = self._codes(self.latents(batch[part])), indices[part]
            if progress is not None:
                best = means.scores(codes, len(known)).argmax(axis=1)
                right = float(((best == classes) & (means.counts[classes] > 0)).mean())
            means.add(codes, classes)
            if progress is not None:
                progress(step, len(starts), right)
        self._means, self._labels = means, known
        return self

    def predict(self, images: object) -> list[Hashable]:
        """The nearest class of each image. Raises ConfigurationError before the first experience."""
        return self.predict_latents(self.latents(images))

    def predict_proba(self, images: object) -> NDArray[np.float64]:
        """Probabilities [N, len(classes_)], columns in the order of `classes_`.

        Of a normal distribution around each mean with the variance that all classes and values have in common.
        """
        exponents = self._scores(self.latents(images)) / (2 * self._means.variance(len(self._labels)))
        likelihoods = np.exp(exponents - exponents.max(axis=1, keepdims=True))
        probabilities: NDArray[np.float64] = likelihoods / likelihoods.sum(axis=1, keepdims=True)
        return probabilities

    def latents(self, images: object) -> NDArray[np.uint8]:
        """The latents of images, as `Learner.latents`."""
        return self._encoder.latents(images)

    def predict_latents(self, latents: NDArray[np.uint8]) -> list[Hashable]:
        """The nearest class of each of some images' `latents`: what `predict` gives for the images."""
        return [self._labels[index] for index in self._scores(latents).argmax(axis=1)]

    def save(self, path: str | Path) -> None:
        """Writes the learner, model included, to one safetensors file, whole or not at all."""
        facts = {
            "settings": asdict(self.settings),
            "widths": str(self.widths),
            "labels": [label_to_json(label) for label in self._labels],
        }
        tensors: Tensors = {
            "model": np.frombuffer(program_bytes(self.program), np.uint8),
            "sums": self._means.sums,
            "squares": self._means.squares,
            "counts": self._means.counts,
        }
        write_tensor_file(Path(path), KIND, facts, tensors)

    @classmethod
    def load(cls, path: str | Path) -> NearestMeanLearner:
        """A saved learner, exactly as it was. Raises FormatError for a file that is none."""
        engine.require_environment()
        facts, tensors = read_tensor_file(Path(path), KIND)
        try:
            model = require_tensor(tensors, "model", np.uint8, (None,)).tobytes()
            learner = cls(program_from_bytes(model, str(path)), Settings(**facts["settings"]), facts["widths"])
            means, classes = learner._means, learner.settings.classes
            means.sums = require_tensor(tensors, "sums", np.uint32, (classes, learner._values))
            means.squares = require_tensor(tensors, "squares", np.int64, (classes,))
            means.counts = require_tensor(tensors, "counts", np.int64, (classes,))
            labels = [label_from_json(label) for label in facts["labels"]]
            _, learner._labels = index_labels(labels, [], classes)
            expected = [index < len(labels) for index in range(classes)]
            if learner._labels != labels or (means.counts > 0).tolist() != expected:
                raise ValueError("its labels are not those of its sums")
            if means.counts.max() > means.most_patterns or (means.sums.max(axis=1) > means.counts * means.top).any():
                raise ValueError("its sums are impossible")
        except (LookupError, TypeError, ValueError) as error:
            raise FormatError(f"{path} is damaged ({error}): use an earlier copy of it") from error
        return learner

    def _scores(self, latents: NDArray[np.uint8]) -> NDArray[np.float64]:
        if not self._labels:
            raise ConfigurationError("the learner knows no class yet: call partial_fit first")
        starts = range(0, len(latents), _LATENTS_AT_ONCE)
        codes = (self._codes(latents[first : first + _LATENTS_AT_ONCE]) for first in starts)
        return np.concatenate([self._means.scores(part, len(self._labels)) for part in codes])

    def _codes(self, latents: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return unpack_codes(latents, self._values, self._bits)
