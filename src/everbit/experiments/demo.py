"""The main job on a packaged image set: three learners meet the same stream of new classes, in integers."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from everbit.data.dataset import Dataset
from everbit.data.stream import Experience, Stream
from everbit.data.streams import nc_stream
from everbit.experiments.metrics import accuracy, confusion_matrix, group_accuracies
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings

STRATEGY_OF = {"naive": "naive", "cwr": "cwr", "lr_cwr": "lr"}
"""The strategy (everbit.learner.settings.STRATEGIES) of each learner, by the name it is reported under."""
UNSEEN = -1
"""What stands for the prediction of a test image whose class has not come yet: wrong, whatever the learner says."""


@dataclass
class Record:
    """One learner's way through the stream.

    predicted: after each experience, int64 [test images], UNSEEN where the class has not come yet.
    learning_seconds, testing_seconds: of each experience. tested: number of test images predicted after each.
    """

    name: str
    learner: Learner
    predicted: list[NDArray[np.int64]] = field(default_factory=list)
    learning_seconds: list[float] = field(default_factory=list)
    testing_seconds: list[float] = field(default_factory=list)
    tested: list[int] = field(default_factory=list)


class Watcher:
    """Told how the demo gets on; does nothing."""

    def began(self, run: DemoRun, experience: Experience, record: Record) -> None:
        """A learner starts on an experience."""

    def stepped(self, run: DemoRun, record: Record, fraction: float) -> None:
        """A learner has done that fraction of the experience's mini-batches."""

    def learned(self, run: DemoRun, experience: Experience) -> None:
        """Every learner has learned the experience and is tested."""


@dataclass
class DemoRun:
    """The demo while it runs, and what came of it.

    model: as the user named it. epochs: passes over each experience's images. seconds: of the whole run so far, testing
    included.
    """

    stream: Stream
    dataset_name: str
    model: str
    seed: int
    epochs: int
    records: dict[str, Record]
    seconds: float = 0.0

    @property
    def class_order(self) -> list[int]:
        """Class numbers in the order they are learned."""
        return [label for experience in self.stream.train_stream for label in experience.classes]

    def classes_after(self, experience: int) -> list[int]:
        """Class numbers seen once the experience of that index is learned."""
        return [label for seen in self.stream.train_stream[: experience + 1] for label in seen.classes]

    def accuracy_on(self, predicted: NDArray[np.int64], classes: list[int]) -> float:
        """Fraction of the test images of some classes that were predicted right."""
        member = np.isin(self.stream.test_labels, classes)
        return accuracy(predicted[member], self.stream.test_labels[member])

    def accuracy_matrix(self, record: Record) -> NDArray[np.float64]:
        """Row: after which experience; column: on the test images of which experience's classes."""
        groups = [experience.classes for experience in self.stream.train_stream]
        return np.stack([group_accuracies(row, self.stream.test_labels, groups) for row in record.predicted])

    def confusion(self, record: Record) -> NDArray[np.int64]:
        """Counts [C, C] at the end, row = true class, column = predicted class, both in the order they were learned."""
        return confusion_matrix(record.predicted[-1], self.stream.test_labels, self.class_order)


def start_demo(dataset: Dataset, model: str | Path, *, seed: int = 0, epochs: int = 5) -> DemoRun:
    """The three learners, before their first experience.

    model: name of a packaged model or path of an .everbit file; the images are resized to it. Raises FormatError for a
    bad model, ConfigurationError for a bad seed.
    """
    learners = {}
    stream = nc_stream(dataset, seed=seed)
    largest = max(len(experience.labels) for experience in stream.train_stream)
    for name, strategy in STRATEGY_OF.items():
        settings = Settings(strategy=strategy, classes=len(dataset.class_names), experience_images=largest, seed=seed)
        learners[name] = Learner.open(model, settings=settings)
    stream = nc_stream(dataset.fitted(learners["lr_cwr"].image_shape), seed=seed)
    records = {name: Record(name, learner) for name, learner in learners.items()}
    return DemoRun(stream, dataset.name, str(model), seed, epochs, records)


def run_demo(run: DemoRun, watcher: Watcher | None = None) -> DemoRun:
    """Every experience in turn: each learner learns it, then is tested. Returns the same run, completed."""
    watcher = watcher or Watcher()
    started = time.perf_counter()
    for experience in run.stream.train_stream:
        for record in run.records.values():
            watcher.began(run, experience, record)
            _learn(run, experience, record, watcher)
            _test(run, experience, record)
            run.seconds = time.perf_counter() - started
        watcher.learned(run, experience)
    return run


def _learn(run: DemoRun, experience: Experience, record: Record, watcher: Watcher) -> None:
    started = time.perf_counter()
    record.learner.partial_fit(
        experience.images,
        experience.labels.tolist(),
        epochs=run.epochs,
        progress=lambda step, steps, _: watcher.stepped(run, record, step / steps),
    )
    record.learning_seconds.append(time.perf_counter() - started)


def _test(run: DemoRun, experience: Experience, record: Record) -> None:
    started = time.perf_counter()
    seen = np.flatnonzero(np.isin(run.stream.test_labels, run.classes_after(experience.index)))
    predicted = np.full(len(run.stream.test_labels), UNSEEN, np.int64)
    predicted[seen] = np.array(record.learner.predict(run.stream.test_images[seen]), np.int64)
    record.predicted.append(predicted)
    record.tested.append(len(seen))
    record.testing_seconds.append(time.perf_counter() - started)
