"""The network's own classes in the program: its rows and biases, or its outputs as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from compile.networks import NETWORKS
from compile.test_networks import as_input, images
from compile.test_thresholds import as_input as small_input
from compile.test_thresholds import cnv, norms_of_data, pictures
from everbit.compile.classifier import PATTERNS_OF_A_ROW
from everbit.compile.compiler import compile_program
from everbit.errors import CompileError, ConfigurationError
from everbit.formats.model_file import save_program
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings
from everbit.nn import BinaryConv2d, BinaryLinear, Sign
from everbit.quantize.widths import Widths

CLASSES = 7
FINE = Widths(16, 16, 16, 16)


class WithHead(nn.Module):
    """A body and a linear head on its features, which may be a map."""

    def __init__(self, body: nn.Sequential, bias: bool = True) -> None:
        super().__init__()
        self.body, self.flatten = body, nn.Flatten()
        with torch.no_grad():
            features = self.flatten(body.eval()(torch.zeros(1, 3, 32, 32))).shape[1]
        self.head = nn.Linear(features, CLASSES, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.flatten(self.body(x)))
        return logits


def trained(name: str, bias: bool = True, pooled: bool = True) -> WithHead:
    """A network of the table with statistics of data; without its last pool the head reads a map."""
    torch.manual_seed(1)
    body = NETWORKS[name][0]()
    network = WithHead(body if pooled else body[:-1], bias)
    for module in network.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            module.momentum = None
    with torch.no_grad():
        network.train()(as_input(images(64, 7)))
        network.head.weight *= 4
        if bias:
            network.head.bias.uniform_(-2, 2)
    return network.eval()


@pytest.mark.parametrize(
    ("name", "bias", "pooled"),
    [("mobilenet", True, True), ("mobilenet", False, False), ("mixed", True, False), ("dense", True, True)],
)
def test_a_program_answers_as_the_network_does(name: str, bias: bool, pooled: bool) -> None:
    network, pixels = trained(name, bias, pooled), images(64, 7)
    last = NETWORKS[name][1][-1]
    labels = [f"class {index}" for index in range(CLASSES)]
    program = compile_program(network, pixels, cut=f"body.{last}", widths=FINE, keep_classifier=True, labels=labels)
    learner = Learner(program, Settings(classes=3))
    assert learner.classes_ == labels
    with torch.no_grad():
        expected = network(as_input(pixels)).softmax(1).numpy()
    np.testing.assert_allclose(learner.predict_proba(pixels), expected, atol=0.02)
    sure = np.sort(expected, axis=1)[:, -1] - np.sort(expected, axis=1)[:, -2] > 0.04
    assert sure.mean() > 0.4
    found = [labels.index(str(label)) for label in learner.predict(pixels)]
    np.testing.assert_array_equal(np.array(found)[sure], expected.argmax(1)[sure])


def test_outputs_that_no_linear_layer_makes_are_classes_as_they_are() -> None:
    """FINN's networks end in sums of binary weights: the program has the same maximum, always."""
    network, pixels = norms_of_data(cnv(), 3), pictures(200, 9)
    program = compile_program(network, pictures(8, 1), cut="15", widths=Widths(8, 1, 16, 1), keep_classifier=True)
    with torch.no_grad():
        expected = network(small_input(pixels)).numpy()
    learner = Learner(program, Settings(classes=1))
    assert learner.classes_ == list(range(10))
    assert learner.predict(pixels) == expected.argmax(1).tolist()
    logits = learner._native.logits(pixels)[:, :10] / 2**16
    np.testing.assert_allclose(logits, expected, atol=1e-3)


def test_the_first_outputs_alone_may_be_classes() -> None:
    network, pixels = norms_of_data(cnv(), 3), pictures(50, 9)
    program = compile_program(
        network, pixels, cut="15", widths=Widths(8, 1, 16, 1), keep_classifier=True, labels=("a", "b", "c")
    )
    with torch.no_grad():
        expected = network(small_input(pixels)).numpy()[:, :3].argmax(1)
    assert Learner(program).predict(pixels) == ["abc"[index] for index in expected]


def test_the_scale_of_the_last_sums_is_kept() -> None:
    network = norms_of_data(nn.Sequential(*cnv()[:-1], BinaryLinear(70, 4, scale=False)), 3)
    last = network[-1]
    last.scale = True
    last.set_binary(last.weight, torch.full((4,), 0.125))
    pixels = pictures(20, 9)
    program = compile_program(network, pixels, cut="15", widths=Widths(8, 1, 16, 1), keep_classifier=True)
    with torch.no_grad():
        expected = network(small_input(pixels)).softmax(1).numpy()
    np.testing.assert_allclose(Learner(program).predict_proba(pixels), expected, atol=2e-3)
    last.set_binary(last.weight, torch.linspace(0.1, 0.2, 4))
    with pytest.raises(CompileError, match="16: ends in binary sums whose channels have scales of their own; put a"):
        compile_program(network, pixels, cut="15", keep_classifier=True)


def test_batch_norms_at_the_end_are_classes_too() -> None:
    """As in W23's networks."""
    network = norms_of_data(nn.Sequential(*cnv(), nn.BatchNorm1d(10)), 4)
    pixels = pictures(100, 9)
    program = compile_program(network, pixels, cut="15", widths=Widths(16, 1, 16, 1), keep_classifier=True)
    with torch.no_grad():
        expected = network(small_input(pixels)).softmax(1).numpy()
    np.testing.assert_allclose(Learner(program).predict_proba(pixels), expected, atol=5e-3)


def test_norms_that_were_never_trained_keep_their_function() -> None:
    """One that stands for a multiplier and a bias has mean 0 and variance 1, and sums far beyond what xhat can hold."""
    network, pixels = trained("binarynet"), images(64, 7)
    with torch.no_grad():
        expected = network(as_input(pixels)).softmax(1).numpy()
        for module in network.modules():
            if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
                slope = module.weight / (module.running_var + module.eps).sqrt()
                module.bias.sub_(module.running_mean * slope)
                module.weight.copy_(slope * (1 + module.eps) ** 0.5)
                module.running_mean.zero_(), module.running_var.fill_(1.0)
        np.testing.assert_allclose(network(as_input(pixels)).softmax(1).numpy(), expected, atol=1e-3)
    program = compile_program(network, pixels, cut="body.2.0", widths=Widths(16, 1, 32, 1), keep_classifier=True)
    found = Learner(program, widths="16,1,32,1").predict_proba(pixels)
    assert np.median(np.abs(found - expected)) < 0.01


def test_known_classes_go_on_learning(tmp_path: Path) -> None:
    """New classes join them; one seen again is refined; a saved learner knows all."""
    network, pixels = trained("mobilenet"), images(40, 5)
    program = compile_program(network, images(64, 7), cut="body.2", widths=Widths(8, 16, 16, 8), keep_classifier=True)
    save_program(program, tmp_path / "known.everbit")
    learner = Learner.open(tmp_path / "known.everbit", settings=Settings(classes=2, replay_per_class=8))
    before = learner.predict_proba(pixels)
    learner.partial_fit(pixels[:16], ["new", 3] * 8, epochs=3)
    assert learner.classes_ == [*range(CLASSES), "new"]
    assert learner.predict_proba(pixels).shape == (40, CLASSES + 1)
    assert (learner.predict_proba(pixels)[:, :CLASSES] != before).any()
    learner.save(tmp_path / "known.learner")
    again = Learner.load(tmp_path / "known.learner")
    assert (again.state, again.classes_) == (learner.state, learner.classes_)
    np.testing.assert_array_equal(again.predict_proba(pixels), learner.predict_proba(pixels))


def test_rows_stand_for_as_many_patterns_as_the_compiler_says() -> None:
    program = compile_program(trained("dense"), images(8, 7), cut="body.1", keep_classifier=True)
    assert program.head.classifier is not None
    assert set(program.head.classifier.past.tolist()) == {PATTERNS_OF_A_ROW}
    assert program.head.labels == tuple(range(CLASSES))
    assert compile_program(trained("dense"), images(8, 7), cut="body.1").head.classifier is None


def test_labels_fit() -> None:
    for labels in (["a"] * CLASSES, list("abc"), list("abcdefgh")):
        with pytest.raises(ConfigurationError, match=f"{len(labels)} labels for the {CLASSES} classes"):
            compile_program(trained("dense"), images(8, 7), cut="body.1", keep_classifier=True, labels=labels)
    with pytest.raises(ConfigurationError, match="12 labels for the 10 classes"):
        compile_program(norms_of_data(cnv(), 3), pictures(8, 1), cut="15", keep_classifier=True, labels=range(12))


def test_a_map_is_no_row_of_classes() -> None:
    network = norms_of_data(nn.Sequential(nn.Conv2d(3, 4, 3), Sign(), BinaryConv2d(4, 5, scale=False)), 2)
    with pytest.raises(CompileError, match="2: is no row of values for the network's own classes; flatten it"):
        compile_program(network, pictures(8, 1), cut="0", keep_classifier=True)
