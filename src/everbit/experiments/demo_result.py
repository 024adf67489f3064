"""The demo's result as plain data: the content of result.json, and all that the report shows but its pictures."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from math import prod
from typing import Any

import everbit
from everbit import engine
from everbit.experiments.demo import DemoRun, Record
from everbit.experiments.metrics import average_accuracy, backward_transfer, forgetting
from everbit.zoo.packaged import packaged_model

LATENT_WIDTHS = {"1 bit": 1, "8 bit": 8, "float32": 32}
"""Widths at which the report compares the size of the stored latents."""


def demo_result(run: DemoRun) -> dict[str, Any]:
    """Everything a completed run found, of types JSON knows. Accuracies are fractions of 1, sizes bytes.

    `accuracy_after` is the accuracy on the test images of all classes after each experience; a class not seen yet
    counts as wrong. `replay_bytes` and `learner_bytes` are those of lr_cwr.
    """
    replaying = run.records["lr_cwr"]
    memory = replaying.learner.memory_use
    names = run.stream.class_names
    return {
        "learners": {name: _learner_result(run, record) for name, record in run.records.items()},
        "replay_bytes": memory["replay"],
        "learner_bytes": memory["total"],
        "seconds": round(run.seconds, 3),
        "confusion_matrix": {"learner": "lr_cwr", "counts": run.confusion(replaying).tolist()},
        "class_order": [names[label] for label in run.class_order],
        "experiences": [
            {"classes": [names[label] for label in experience.classes], "images": len(experience.labels)}
            for experience in run.stream.train_stream
        ],
        "test_images": len(run.stream.test_labels),
        "latents": _latents(replaying),
        "model_bytes": packaged_model(run.model).stat().st_size,
        "configuration": {
            "model": run.model,
            "data": run.dataset_name,
            "seed": run.seed,
            "epochs": run.epochs,
            "bits": str(replaying.learner.widths),
            "settings": {name: asdict(record.learner.settings) for name, record in run.records.items()},
        },
        "version": everbit.__version__,
        "isa": engine.active_isa(),
    }


def _learner_result(run: DemoRun, record: Record) -> dict[str, Any]:
    matrix = run.accuracy_matrix(record)
    every_class = run.class_order
    after = [run.accuracy_on(predicted, every_class) for predicted in record.predicted]
    experiences = run.stream.train_stream
    return {
        "final_accuracy": after[-1],
        "accuracy_after": after,
        "seen_accuracy_after": [
            run.accuracy_on(predicted, run.classes_after(index)) for index, predicted in enumerate(record.predicted)
        ],
        "class_accuracy_after": [
            [run.accuracy_on(predicted, [label]) for label in every_class] for predicted in record.predicted
        ],
        "accuracy_matrix": matrix.tolist(),
        "average_accuracy": average_accuracy(matrix),
        "forgetting": forgetting(matrix),
        "backward_transfer": backward_transfer(matrix),
        "memory": record.learner.memory_use,
        "learning_seconds_per_image": [
            seconds / len(experience.labels)
            for seconds, experience in zip(record.learning_seconds, experiences, strict=True)
        ],
        "predicting_seconds_per_image": sum(record.testing_seconds) / sum(record.tested),
        "state_sha256": hashlib.sha256(record.learner.state).hexdigest(),
    }


def _latents(record: Record) -> dict[str, Any]:
    """The replay memory's capacity, and the bytes its latents would take at other widths."""
    shape = record.learner.program.latent_shape
    settings = record.learner.settings
    count = settings.classes * settings.replay_per_class
    return {
        "count": count,
        "shape": list(shape),
        "bytes": {name: count * ((prod(shape) * bits + 7) // 8) for name, bits in LATENT_WIDTHS.items()},
    }
