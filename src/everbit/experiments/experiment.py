"""One experiment: a data set as a stream for each seed, all accuracies on one fixed test set (docs/method.md 1.5)."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everbit import __version__
from everbit.data.augment import pad_crop_flip
from everbit.data.dataset import Dataset
from everbit.data.lazy_images import parts, update_digest
from everbit.data.permutation import seeded_permutation
from everbit.data.scenarios import SCENARIOS, make_stream
from everbit.data.stream import Experience, Stream
from everbit.errors import ConfigurationError
from everbit.experiments.configuration import Configuration
from everbit.experiments.metrics import (
    accuracy_after,
    average_accuracy,
    backward_transfer,
    forgetting,
    group_accuracies,
)
from everbit.experiments.models import ModelSource
from everbit.experiments.run_cache import RunCache, RunProgress
from everbit.learner.protocol import ContinualLearner

Watcher = Callable[[int, int, int, float, list[float]], None]
"""Called as a run goes on: seed, index of the experience, experiences in all, fraction of the experience that is done,
accuracies on the whole test set so far."""


def run_experiment(
    configuration: Configuration,
    dataset: Dataset,
    source: ModelSource,
    seeds: int,
    cache: Path,
    watcher: Watcher | None = None,
) -> dict[str, Any]:
    """The result of an experiment with the class orders 0 .. seeds - 1, as the JSON of `everbit experiment`.

    cache: an existing folder; finished runs found in it are taken over, unfinished ones go on. Raises
    ConfigurationError, ImageError or CompileError for what cannot be run.
    """
    if seeds < 1:
        raise ConfigurationError(f"seeds is {seeds}: choose 1 or more")
    data = prepared_dataset(configuration, dataset, source)
    runs = [run_seed(configuration, data, source, seed, cache, watcher) for seed in range(seeds)]
    return summarized(configuration, runs)


def summarized(configuration: Configuration, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The result of an experiment from its runs."""
    finals = np.array([run["final_accuracy"] for run in runs])
    return {
        "configuration": {**configuration.described(), "version": __version__},
        "runs": list(runs),
        "mean_final_accuracy": float(finals.mean()),
        "std_final_accuracy": float(finals.std(ddof=1)) if len(runs) > 1 else 0.0,
    }


def prepared_dataset(configuration: Configuration, dataset: Dataset, source: ModelSource) -> Dataset:
    """The data set as the runs of a configuration meet it: images in the model's shape.

    Raises ConfigurationError or ImageError where the images do not fit.
    """
    data = dataset.fitted(source.input_shape)
    if configuration.augment and not data.pad_crop_flip:
        raise ConfigurationError(f"images of {data.name} must not be flipped: leave augmentation out")
    return data


def _limited(stream: Stream, test_images_per_class: int | None) -> Stream:
    """The stream with at most so many test images of each class, the same ones for every seed."""
    if test_images_per_class is None:
        return stream
    kept = []
    for label in range(len(stream.class_names)):
        indices = np.flatnonzero(stream.test_labels == label)
        kept.append(indices[seeded_permutation(len(indices), 0, label)[:test_images_per_class]])
    chosen = np.sort(np.concatenate(kept))
    return replace(stream, test_images=stream.test_images[chosen], test_labels=stream.test_labels[chosen])


def run_seed(
    configuration: Configuration,
    dataset: Dataset,
    source: ModelSource,
    seed: int,
    folder: Path,
    watcher: Watcher | None = None,
) -> dict[str, Any]:
    """One class order of a prepared data set: from the cache, or learned from where it got to."""
    stream = stream_of(configuration, dataset, seed)
    cache = RunCache(folder, identity_of(configuration, stream, source, seed))
    with cache.locked():
        run = cache.result()
        if run is None:
            run = _learn(configuration, stream, source, seed, cache, watcher)
            cache.finish(run)
    return run


def stream_of(configuration: Configuration, dataset: Dataset, seed: int) -> Stream:
    """The stream of a class order, with as many test images as wanted.

    Raises ConfigurationError or DataError where the data set cannot make it.
    """
    stream = make_stream(
        configuration.scenario,
        dataset,
        experiences=configuration.experiences,
        seed=seed,
        images_per_class=configuration.images_per_class,
        class_order=configuration.class_order,
    )
    return _limited(stream, configuration.test_images_per_class)


def identity_of(configuration: Configuration, stream: Stream, source: ModelSource, seed: int) -> dict[str, Any]:
    """All that decides a run's numbers, but for the code."""
    return {
        "configuration": {**configuration.described(), "model": Path(configuration.model).name},
        "seed": seed,
        "model_digest": source.digest,
        "stream_digest": _stream_digest(stream),
    }


def _learn(
    configuration: Configuration,
    stream: Stream,
    source: ModelSource,
    seed: int,
    cache: RunCache,
    watcher: Watcher | None,
) -> dict[str, Any]:
    """Learns what is left of the stream, keeping the learner after every experience."""
    started = time.perf_counter()
    seconds_after: list[float] = []
    experiences = stream.train_stream
    groups = _test_groups(configuration.scenario, stream)
    sizes = [int(np.isin(stream.test_labels, group).sum()) for group in groups]
    matrix: list[list[float]] = []
    found = cache.progress()
    if found is None:
        learner = _new_learner(configuration, stream, source, seed)
    else:
        progress, file = found
        learner, matrix = configuration.kind.load(file), progress.accuracy_matrix
        seconds_after = progress.seconds_after
        started -= seconds_after[-1]
    test_latents = np.concatenate([learner.latents(part) for part in parts(stream.test_images)])
    for experience in experiences[len(matrix) :]:
        so_far = accuracy_after(matrix, sizes).tolist() if matrix else []

        def report(
            step: int, steps: int, right: float, index: int = experience.index, so_far: list[float] = so_far
        ) -> None:
            if watcher is not None:
                watcher(seed, index, len(experiences), step / steps, so_far)

        images = _augmented(experience, seed) if configuration.augment else experience.images
        learner.partial_fit(images, experience.labels.tolist(), progress=report)
        predicted = np.array(learner.predict_latents(test_latents), np.int64)
        matrix.append(group_accuracies(predicted, stream.test_labels, groups).tolist())
        seconds_after.append(time.perf_counter() - started)
        cache.save_progress(RunProgress(matrix, seconds_after), learner)
    after = accuracy_after(matrix, sizes)
    return {
        "seed": seed,
        "final_accuracy": float(after[-1]),
        "accuracy_after": after.tolist(),
        "average_accuracy": average_accuracy(matrix),
        "forgetting": forgetting(matrix),
        "backward_transfer": backward_transfer(matrix),
        "accuracy_matrix": matrix,
        "replay_bytes": learner.memory_use["replay"],
        "learner_bytes": learner.memory_use["total"],
        "seconds_after": seconds_after,
        "seconds": time.perf_counter() - started,
    }


def _new_learner(configuration: Configuration, stream: Stream, source: ModelSource, seed: int) -> ContinualLearner:
    program = source.program(stream.train_stream[0].images)
    largest = max(len(experience.labels) for experience in stream.train_stream)
    settings = configuration.settings(len(stream.class_names), largest, seed)
    return configuration.kind.start(program, settings, configuration.bits)


def _test_groups(scenario: str, stream: Stream) -> Sequence[tuple[int, ...]]:
    """The classes of each column of the accuracy matrix (everbit.experiments.metrics)."""
    if SCENARIOS[scenario].by_class:
        return [experience.classes for experience in stream.train_stream]
    return [tuple(range(len(stream.class_names)))] * len(stream.train_stream)


def _augmented(experience: Experience, seed: int) -> NDArray[np.uint8]:
    sequence = np.random.SeedSequence(seed, spawn_key=(experience.index,))
    return pad_crop_flip(experience.images, np.random.default_rng(sequence))


def _stream_digest(stream: Stream) -> str:
    """Digest of all images and labels, and of their order."""
    digest = hashlib.sha256()
    for part in stream.train_stream:
        update_digest(digest, part.source)
        digest.update(np.ascontiguousarray(part.labels).data)
    update_digest(digest, stream.test_images)
    digest.update(np.ascontiguousarray(stream.test_labels).data)
    return digest.hexdigest()
