"""FINN's networks: small ones against their definition bit by bit, the published ones against their accuracy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from everbit import engine
from everbit.compile.compiler import compile_program
from everbit.compile.image import program_image
from everbit.compile.program import Program
from everbit.data.datasets import load
from everbit.errors import FormatError, UnsupportedError
from everbit.formats.importers import ImportedNetwork, load_network
from everbit.formats.importers.statistics import measure_statistics
from everbit.quantize.widths import Widths

RNG = np.random.default_rng(2)
Arrays = dict[str, np.ndarray]
KERNELS = (3, 3, 3, 3, 3, 3, 1, 1, 1)


def archive(shapes: list[tuple[int, ...]], centers: float = 0.5) -> Arrays:
    """Random weights, and thresholds that fire about half of the time."""
    arrays: Arrays = {}
    for layer, shape in enumerate(shapes):
        terms = int(np.prod(shape[1:]))
        arrays[f"W{layer}_bits"] = np.packbits(RNG.random((shape[0], terms)) < 0.5, axis=1, bitorder="little")
        arrays[f"W{layer}_shape"] = np.array(shape)
        spread = max(2, int(terms**0.5))
        arrays[f"T{layer}"] = (centers * terms + RNG.integers(-spread, spread, shape[0])).astype(np.int32)
    return arrays


def small_cnv() -> Arrays:
    filters = (8, 8, 16, 16, 24, 24, 32, 32, 16)
    channels = (3, *filters)
    arrays = archive([(f, k, k, c) for f, k, c in zip(filters, KERNELS, channels, strict=False)])
    arrays["T0"] = RNG.integers(-900, 900, 8).astype(np.int32)
    return arrays


def small_lfc() -> Arrays:
    return archive([(48, 832), (40, 48), (16, 40)])


def save(arrays: Arrays, folder: Path) -> Path:
    np.savez(folder / "network.npz", **arrays)
    return folder / "network.npz"


def bits(arrays: Arrays, layer: int) -> np.ndarray:
    """Weights {0, 1} in the archive's shape."""
    shape = arrays[f"W{layer}_shape"]
    columns = int(np.prod(shape[1:]))
    return np.unpackbits(arrays[f"W{layer}_bits"], axis=1, count=columns, bitorder="little").reshape(shape)


def counts(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Agreeing bits of windows [N, H, W, C] with weights [out, k, k, C]."""
    views = np.lib.stride_tricks.sliding_window_view(x, weight.shape[1:3], axis=(1, 2)).transpose(0, 1, 2, 4, 5, 3)
    return np.stack([(views == filter_).sum(axis=(3, 4, 5)) for filter_ in weight], axis=-1)


def cnv_counts(arrays: Arrays, pixels: np.ndarray) -> np.ndarray:
    """CNV in whole numbers: the last layer's counts."""
    # floor((u / 127.5 - 1) * 128) at most 127, without a division that rounds.
    x = np.minimum((256 * pixels.astype(np.int64) - 128 * 255) // 255, 127)
    signs = 2 * bits(arrays, 0).astype(np.int64) - 1
    views = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2)).transpose(0, 1, 2, 4, 5, 3)
    x = (2 * np.einsum("nhwijc,oijc->nhwo", views, signs) > arrays["T0"]).astype(np.uint8)
    for layer in range(1, len(KERNELS)):
        found = counts(x, bits(arrays, layer))
        if layer == len(KERNELS) - 1:
            return found.reshape(len(pixels), -1)
        x = (found > arrays[f"T{layer}"]).astype(np.uint8)
        if layer in (1, 3):
            n, height, width, channels = x.shape
            x = x.reshape(n, height // 2, 2, width // 2, 2, channels).max(axis=(2, 4))
    raise AssertionError


def lfc_counts(arrays: Arrays, pixels: np.ndarray) -> np.ndarray:
    """LFC in whole numbers."""
    x = np.zeros((len(pixels), 832), np.uint8)
    x[:, :784] = pixels.reshape(len(pixels), -1) >= 128
    for layer in range(3):
        found = (x[:, None] == bits(arrays, layer)).sum(axis=2)
        x = (found > arrays[f"T{layer}"]).astype(np.uint8)
    return found


def logits(network: ImportedNetwork, pixels: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return network.network(torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1).numpy()


def engine_logits(program: Program, pixels: np.ndarray) -> np.ndarray:
    """The head's sums, as the engine computes them."""
    batch = 200
    options = {"q_bin": 8, "q_nonbin": 16, "classes": 2, "cwr": True, "learning_rates": [(0, 0)] * 5}
    network = engine.Network(program_image(program), min(batch, len(pixels)), options)
    index = program.layers[-1].output
    tensor, found = program.tensors[index], []
    for first in range(0, len(pixels), batch):
        images = pixels[first : first + batch]
        network.forward(network.encode(images))
        raw = np.frombuffer(network.activation(index, len(images)), f"<i{tensor.bits // 8}")
        found.append((raw.reshape(len(images), -1).astype(np.int64) - tensor.zero_point) * tensor.scale)
    return np.concatenate(found)


@pytest.mark.parametrize("kind", ["cnv", "lfc"])
def test_every_count_is_the_definition_s(kind: str, tmp_path: Path) -> None:
    arrays = small_cnv() if kind == "cnv" else small_lfc()
    network = load_network(save(arrays, tmp_path))
    pixels = RNG.integers(0, 256, (20, *network.input_shape), np.uint8)
    pixels[0], pixels[1], pixels[2] = 0, 255, 128
    expected = (cnv_counts if kind == "cnv" else lfc_counts)(arrays, pixels)[:, :10]
    terms = int(np.prod(arrays["W8_shape" if kind == "cnv" else "W2_shape"][1:]))
    np.testing.assert_array_equal(logits(network, pixels), 2 * expected - terms)
    if kind == "cnv":
        program = compile_program(network.network, pixels, cut="head.linear", widths=Widths(16, 16, 16, 16))
        np.testing.assert_allclose(engine_logits(program, pixels), 2 * expected - terms, atol=1e-2)


@pytest.mark.parametrize(
    ("name", "data", "accuracy"), [("cnvW1A1_cifar10", "cifar10", 0.7937), ("lfcW1A1_mnist", "mnist", 0.9834)]
)
def test_the_published_accuracy(research_data: Path, name: str, data: str, accuracy: float) -> None:
    """All 10,000 test images on the engine, the network frozen up to its head."""
    network = load_network(research_data / f"bnn_pynq_{name}.npz")
    if data == "mnist":
        with np.load(research_data / "mnist.npz") as file:
            images, labels = file["test_images"].reshape(-1, 28, 28, 1), file["test_labels"]
    else:
        loaded = load(data, research_data)
        images, labels = loaded.test_images, loaded.test_labels
    program = compile_program(network.network, images[:64], cut="head.linear", widths=Widths(16, 16, 16, 16))
    found = engine_logits(program, images)
    assert (found.argmax(axis=1) == labels).mean() == accuracy
    np.testing.assert_array_equal(found[:200].argmax(axis=1), logits(network, images[:200]).argmax(axis=1))


def test_layers_behind_a_cut_keep_what_they_compute(research_data: Path) -> None:
    """Thresholds have no statistics: measured ones stand in, so that a cut network is still the trained one."""
    network = load_network(research_data / "bnn_pynq_cnvW1A1_cifar10.npz")
    loaded = load("cifar10", research_data)
    images, pixels, labels = loaded.train_images[::500], loaded.test_images[:400], loaded.test_labels[:400]
    measure_statistics(network.network, network.folded_norms, images)
    program = compile_program(network.network, images, cut="block4", widths=Widths(16, 16, 16, 16))
    found = (engine_logits(program, pixels).argmax(axis=1) == labels).mean()
    expected = (logits(network, pixels).argmax(axis=1) == labels).mean()
    assert abs(found - expected) < 0.01


def test_what_is_wrong_with_an_archive_is_named(tmp_path: Path) -> None:
    arrays = small_lfc()
    without = {name: array for name, array in arrays.items() if name != "T1"}
    cases = [
        (without, FormatError, "T1 is missing"),
        (arrays | {"T1": arrays["T1"].astype(np.float32)}, FormatError, r"T1 is float32 \[40\], expected int \[40\]"),
        (arrays | {"T1": arrays["T1"][:-1]}, FormatError, r"T1 is int32 \[39\], expected int \[40\]"),
        (arrays | {"W1_bits": arrays["W1_bits"][:, :-1]}, FormatError, r"W1_bits is uint8 \[40, 5\], expected uint8"),
        (arrays | {"W1_shape": np.array([2**40, 48])}, FormatError, "W1_shape is"),
        (arrays | {"W1_shape": np.array([40])}, FormatError, r"W1_shape has the shape \[1\]"),
        (arrays | {"W0_shape": np.array([48, -832])}, FormatError, r"W0_shape is \[48, -832\]"),
        (arrays | {"classes": np.arange(17).astype(str)}, FormatError, "names 17 classes for its last layer"),
        (arrays | {"classes": np.arange(9)}, FormatError, r"classes are int64 \[9\], not names"),
        (arrays | {"classes": np.array(["a", "a"])}, FormatError, r"classes are str\d+ \[2\], not names, all diff"),
        (small_lfc() | archive([(48, 700)]), UnsupportedError, r"W0 is \[48, 700\] behind 784 values"),
        (small_cnv() | archive([(8, 5, 5, 3)]), UnsupportedError, "it is no CNV"),
        ({"a": np.zeros(3)}, UnsupportedError, "none of FINN's networks"),
        ({"W0_bits": np.array([{}], object)}, FormatError, "W0_bits holds objects"),
    ]
    for broken, kind, message in cases:
        with pytest.raises(kind, match=message):
            load_network(save(broken, tmp_path))
