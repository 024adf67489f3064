"""larq-zoo's QuickNets, as Keras weights and as Larq Compute Engine's files, against what those programs compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from everbit import engine
from everbit.compile.compiler import compile_program
from everbit.compile.image import program_image
from everbit.formats.importers import ImportedNetwork, load_network
from everbit.formats.importers.default_cut import default_cut
from everbit.formats.importers.statistics import measure_statistics
from everbit.quantize.widths import Widths
from everbit.zoo.inputs import to_input

NAMES = ("quicknet", "quicknet_small")

FLOAT_AGREEMENT = 0.98
"""Least cosine of log-probabilities in float: larq and Larq Compute Engine agree with each other no better, because a
sign of a sum next to 0 turns with the last bit of a float, and deep networks of random weights are chaotic."""

ENGINE_AGREEMENT = 0.96
"""The same for 16-bit activations: weights of 8 bits, and the rounding of activations, turn more signs."""


def peers(research_data: Path, name: str) -> dict[str, np.ndarray]:
    """Images and outputs of both programs."""
    with np.load(research_data / "peers" / f"{name}_random_io.npz") as file:
        return {key: file[key] for key in file.files}


def lite(research_data: Path, name: str) -> ImportedNetwork:
    return load_network(research_data / "peers" / f"{name}_random.tflite")


def cosines(logits: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Of two sets of log-probabilities [N, classes], the mean of each taken off."""
    a, b = (x - x.mean(axis=1, keepdims=True) for x in (logits, others))
    return (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def logits(network: torch.nn.Module, images: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return network(to_input(images)).numpy()


@pytest.mark.parametrize("name", NAMES)
def test_the_lite_file_is_its_interpreter_s_network(research_data: Path, name: str) -> None:
    found = lite(research_data, name)
    assert (found.input_shape, found.classes) == ((224, 224, 3), 1000)
    io = peers(research_data, name)
    computed = logits(found.network, io["images"])
    for peer in ("lce_output", "keras_output"):
        assert (cosines(computed, np.log(io[peer])) > FLOAT_AGREEMENT).all()
        np.testing.assert_array_equal(computed.argmax(axis=1), io[peer].argmax(axis=1))


def test_the_keras_weights_are_keras_s_network(research_data: Path) -> None:
    found = load_network(research_data / "peers" / "quicknet_random.h5")
    assert (found.architecture, found.width, found.classes) == ("quicknet", 1.0, 1000)
    io = peers(research_data, "quicknet")
    computed = logits(found.network, io["images"])
    from_lite = logits(lite(research_data, "quicknet").network, io["images"])
    for other in (np.log(io["keras_output"]), np.log(io["lce_output"]), from_lite):
        assert (cosines(computed, other) > FLOAT_AGREEMENT).all()
        np.testing.assert_array_equal(computed.argmax(axis=1), other.argmax(axis=1))


def test_both_imports_hold_the_same_weights(research_data: Path) -> None:
    """Layer by layer: what differs is that the lite file's batch norms are folded into multipliers and biases."""
    keras = load_network(research_data / "peers" / "quicknet_random.h5").network
    folded = lite(research_data, "quicknet").network
    ours = [m for m in keras.modules() if type(m).__name__ == "BinaryConv2d"]
    theirs = [m for m in folded.modules() if type(m).__name__ == "BinaryConv2d"]
    assert len(ours) == len(theirs) == 16
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a.weight, b.weight)
    norms = [path for path, _ in keras.named_modules() if ".block" in path and path.endswith(".bn")]
    multipliers = [path for path, _ in folded.named_modules() if path.startswith("bconv") and path.endswith("_bn")]
    for path, other in zip(norms, multipliers, strict=True):
        norm, multiplier = keras.get_submodule(path), folded.get_submodule(other)
        slope = norm.weight / (norm.running_var + norm.eps).sqrt()
        torch.testing.assert_close(slope, multiplier.weight, rtol=1e-4, atol=1e-7)
        torch.testing.assert_close(norm.bias - norm.running_mean * slope, multiplier.bias, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_the_engine_follows_the_interpreter(research_data: Path, name: str) -> None:
    found, io = lite(research_data, name), peers(research_data, name)
    images = io["images"]
    measure_statistics(found.network, found.folded_norms, images)
    assert default_cut(found) == "blur_46"  # what the last transition's 1x1 reads, as V24 cuts
    program = compile_program(found.network, images, cut="add_59", widths=Widths(16, 16, 16, 16))
    options = {"q_bin": 16, "q_nonbin": 16, "classes": 2, "cwr": True, "learning_rates": [(0, 0)] * 5}
    network = engine.Network(program_image(program), len(images), options)
    network.forward(network.encode(images))
    tensor = program.tensors[program.layers[-1].output]
    raw = np.frombuffer(network.activation(program.layers[-1].output, len(images)), "<i2")
    features = (raw.reshape(len(images), -1) - float(tensor.zero_point)) * tensor.scale
    head = found.network.get_submodule("dense_61")
    computed = features @ head.weight.detach().double().numpy().T + head.bias.detach().double().numpy()
    assert (cosines(computed, np.log(io["lce_output"])) > ENGINE_AGREEMENT).all()


def test_a_quantized_mobilenet_is_read(research_data: Path) -> None:
    found = load_network(research_data / "peers" / "mobilenetv2_int8_random.tflite")
    assert (found.input_shape, found.classes) == ((224, 224, 3), 1000)
    computed = logits(found.network, peers(research_data, "quicknet")["images"][:1])
    assert computed.shape == (1, 1000) and np.isfinite(computed).all()
