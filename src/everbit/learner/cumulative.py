"""The upper bound: at each experience the engine starts anew and learns all images seen so far as one experience."""

from __future__ import annotations

import tempfile
from collections.abc import Hashable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from everbit.compile.program import Program
from everbit.data.images import as_images, as_labels
from everbit.engine import require_environment
from everbit.errors import FormatError
from everbit.learner.labels import index_labels
from everbit.learner.learner import Learner
from everbit.learner.protocol import Progress
from everbit.learner.settings import Settings, refuse_memory_limit
from everbit.learner.tensor_file import Tensors, read_tensor_file, require_tensor, write_tensor_file
from everbit.quantize.widths import Widths

KIND = "cumulative"


class CumulativeLearner:
    """Keeps every image and learns from the beginning each time, see `everbit.learner.protocol.ContinualLearner`.

    Settings as for `Learner`, except that no limit of memory can hold: images are kept without end. Errors as there;
    after one, nothing has changed.
    """

    def __init__(self, program: Program, settings: Settings | None = None, widths: Widths | str | None = None) -> None:
        self.program = program
        self.settings = settings or Settings()
        refuse_memory_limit(self.settings, "the cumulative learner")
        self._learner = Learner(program, self.settings, widths)
        self.widths = self._learner.widths
        self._images: NDArray[np.uint8] = np.empty((0, *program.input_shape), np.uint8)
        self._indices: NDArray[np.int32] = np.empty(0, np.int32)  # of each image's label in classes_

    @property
    def classes_(self) -> list[Hashable]:
        """Labels seen so far, in the order they were first seen."""
        return self._learner.classes_

    @property
    def memory_use(self) -> dict[str, int]:
        """Bytes by purpose: `replay` of all images and labels kept; `total` of these and of the learner."""
        kept = self._images.nbytes + self._indices.nbytes
        use = self._learner.memory_use
        return {"replay": kept + use["replay"], "total": kept + use["total"]}

    def partial_fit(
        self, images: object, labels: Sequence[Hashable], *, epochs: int | None = None, progress: Progress | None = None
    ) -> CumulativeLearner:
        """Learns one experience and all before it, as `Learner.partial_fit`; epochs: passes over all of them."""
        batch = as_images(images, self.program.input_shape)
        given = as_labels(labels, len(batch))
        every_image = np.concatenate([self._images, batch])
        known = self.classes_
        every_label = [known[index] for index in self._indices] + given
        room = max(self.settings.experience_images, len(every_image))
        learner = Learner(self.program, replace(self.settings, experience_images=room), self.widths)
        learner.partial_fit(every_image, every_label, epochs=epochs, progress=progress)
        indices, _ = index_labels(every_label, learner.classes_, len(learner.classes_))
        self._learner, self._images, self._indices = learner, every_image, indices
        return self

    def predict(self, images: object) -> list[Hashable]:
        """The most likely label of each image. Raises ConfigurationError before the first experience."""
        return self._learner.predict(images)

    def predict_proba(self, images: object) -> NDArray[np.float64]:
        """Probabilities [N, len(classes_)], columns in the order of `classes_`."""
        return self._learner.predict_proba(images)

    def latents(self, images: object) -> NDArray[np.uint8]:
        """The latents of images, as `Learner.latents`."""
        return self._learner.latents(images)

    def predict_latents(self, latents: NDArray[np.uint8]) -> list[Hashable]:
        """The most likely label of each of some images' `latents`: what `predict` gives for the images."""
        return self._learner.predict_latents(latents)

    def save(self, path: str | Path) -> None:
        """Writes the learner, images and model included, to one safetensors file, whole or not at all."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "engine.learner"
            self._learner.save(file)
            learner = np.frombuffer(file.read_bytes(), np.uint8)
        tensors: Tensors = {"learner": learner, "images": self._images, "indices": self._indices}
        write_tensor_file(Path(path), KIND, {"settings": asdict(self.settings)}, tensors)

    @classmethod
    def load(cls, path: str | Path) -> CumulativeLearner:
        """A saved learner, exactly as it was. Raises FormatError for a file that is none."""
        require_environment()
        facts, tensors = read_tensor_file(Path(path), KIND)
        try:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "engine.learner"
                file.write_bytes(require_tensor(tensors, "learner", np.uint8, (None,)).tobytes())
                engine = Learner.load(file)
            learner = cls(engine.program, Settings(**facts["settings"]), engine.widths)
            learner._learner = engine
            learner._images = require_tensor(tensors, "images", np.uint8, (None, *engine.image_shape))
            indices = require_tensor(tensors, "indices", np.int32, (len(learner._images),))
            if len(indices) > 0 and not 0 <= indices.min() <= indices.max() < len(engine.classes_):
                raise ValueError("a label is of no class")
            learner._indices = indices
        except FormatError as error:
            raise FormatError(f"{path} is damaged (in the engine's part of it): use an earlier copy of it") from error
        except (LookupError, TypeError, ValueError) as error:
            raise FormatError(f"{path} is damaged ({error}): use an earlier copy of it") from error
        return learner
