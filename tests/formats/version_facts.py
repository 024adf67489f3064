"""What the files of a released version are and compute, as JSON: `tools/make_version_fixtures.py` writes it down when
a version is released, and the tests hold every later version to it.

Nothing here may change for the files of a version that is out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from everbit import engine
from everbit.compile.image import program_image
from everbit.compile.program import Program
from everbit.formats.model_file import load_program
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings
from everbit.zoo.cuts import NETWORKS
from everbit.zoo.inputs import to_input
from everbit.zoo.weights import load_weights, read_description

EXPECTED = "expected.json"
IMAGES = 4
CLASSES = 4


def fixed_images(shape: tuple[int, int, int]) -> np.ndarray:
    """uint8 [IMAGES, *shape], by a formula: no generator's draws may change between versions."""
    index = np.arange(IMAGES * int(np.prod(shape)), dtype=np.int64)
    return (index * 37 + index // 11 * 101 + index // 7 % 5 * 60).astype(np.uint8).reshape(IMAGES, *shape)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _features(program: Program, images: np.ndarray) -> bytes:
    """The bytes of the last tensor of the program, for all images."""
    options = {"q_bin": 16, "q_nonbin": 16, "classes": CLASSES + len(program.head.labels), "cwr": True}
    network = engine.Network(program_image(program), len(images), options | {"learning_rates": [(0, 0)] * 5})
    network.forward(network.encode(images))
    return bytes(network.activation(program.layers[-1].output, len(images)))


def _learner_facts(learner: Learner) -> dict[str, Any]:
    """State, and where it knows classes, what it says of images."""
    facts: dict[str, Any] = {
        "state_sha256": _sha256(learner.state),
        "classes": learner.classes_,
        "metadata": learner.program.metadata,
        "layers": [layer.kind for layer in learner.program.layers],
    }
    if learner.classes_:
        images = fixed_images(learner.image_shape)
        facts["logits"] = learner.logits(images).tolist()
        facts["predictions"] = learner.predict(images)
    return facts


def _model_facts(path: Path) -> dict[str, Any]:
    program = load_program(path)
    learner = Learner.open(path, settings=Settings(classes=CLASSES, replay_per_class=2, seed=1))
    features = _sha256(_features(program, fixed_images(program.input_shape)))
    return {**_learner_facts(learner), "features_sha256": features}


def _backbone_facts(path: Path) -> dict[str, Any]:
    description, has_head = read_description(path)
    shape = NETWORKS[description.architecture].stems[description.stem]
    with torch.no_grad():
        logits = load_weights(path)(to_input(fixed_images(shape)))
    facts = {"architecture": description.architecture, "width": description.width, "classes": description.classes}
    return {**facts, "data": description.data, "has_head": has_head, "logits": logits.tolist()}


FACTS: dict[str, Callable[[Path], dict[str, Any]]] = {
    ".everbit": _model_facts,
    ".learner": lambda path: _learner_facts(Learner.load(path)),
    ".safetensors": _backbone_facts,
}
"""By the ending of a file's name."""
