"""Small sound files of other frameworks, and what a test needs to attack them."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save

from everbit.errors import EverbitError
from everbit.formats.importers import load_network
from formats.importers.lite_model import NONE, SAME, LiteModel, pack_filter
from formats.importers.quicknet_weights import quicknet_layers, write_keras

RNG = np.random.default_rng(11)


def lite_file() -> bytes:
    """Convolution, sign, binary convolution with thresholds, pool of signs, binary convolution, sum, dense layer."""
    model = LiteModel()
    x = model.input(1, 8, 8, 3)
    weights = [model.constant(RNG.normal(size=(12, 3, 3, 3))), model.constant(RNG.normal(size=12))]
    window = {"Padding": SAME, "StrideH": 1, "StrideW": 1, "FusedActivationFunction": NONE}
    x = model.add("CONV_2D", [x, *weights], (1, 8, 8, 12), **window)
    options = {"channels_in": 12, "dilation_height_factor": 1, "dilation_width_factor": 1, "pad_values": 1}
    options |= {"fused_activation_function": NONE, "padding": SAME, "stride_height": 1, "stride_width": 1}
    signs = model.constant(pack_filter(RNG.choice([-1.0, 1.0], (12, 3, 3, 12))), "int32")
    thresholds = model.constant(RNG.integers(40, 60, 12), "int32")
    packed = model.add("LceBconv2d", [model.quantize(x), signs, -1, -1, thresholds], (1, 8, 8, 1), "int32", **options)
    pool = {"padding": SAME, "stride_height": 1, "stride_width": 1, "filter_height": 3, "filter_width": 3}
    packed = model.add("LceBMaxPool2d", [packed], (1, 8, 8, 1), "int32", **pool)
    transform = [model.constant(RNG.normal(size=12)), model.constant(RNG.normal(size=12)), -1]
    y = model.add("LceBconv2d", [packed, signs, *transform], (1, 8, 8, 12), **options)
    x = model.add("ADD", [x, y], (1, 8, 8, 12), FusedActivationFunction=NONE)
    x = model.add("MEAN", [x, model.constant([1, 2], "int32")], (1, 12))
    head = [model.constant(RNG.normal(size=(4, 12))), model.constant(RNG.normal(size=4))]
    model.add("FULLY_CONNECTED", [x, *head], (1, 4), FusedActivationFunction=NONE)
    return model.bytes()


def keras_file(folder: Path) -> bytes:
    """A QuickNetSmall of few filters."""
    return write_keras(quicknet_layers("quicknet_small", divide=32), folder / "sound.h5").read_bytes()


def states() -> dict[str, torch.Tensor]:
    """The state of a chained MobileNetV1 of few filters: nothing but convolutions and batch norms."""
    from formats.importers.published_states import published

    return published("chained mobilenet v1")


def checkpoint_file() -> bytes:
    """Its state dict as PyTorch writes it."""
    buffer = io.BytesIO()
    torch.save({"state_dict": states()}, buffer)
    return buffer.getvalue()


def old_checkpoint_file() -> bytes:
    """The same as PyTorch before version 1.6 wrote it."""
    buffer = io.BytesIO()
    torch.save({"state_dict": states()}, buffer, _use_new_zipfile_serialization=False)
    return buffer.getvalue()


def safetensors_file() -> bytes:
    """The same as safetensors."""
    return save({name: tensor.contiguous() for name, tensor in states().items()})


def finn_file() -> bytes:
    """An LFC of few outputs."""
    arrays: dict[str, np.ndarray] = {}
    for layer, (outputs, inputs) in enumerate([(16, 832), (12, 16), (10, 12)]):
        arrays[f"W{layer}_bits"] = np.packbits(RNG.random((outputs, inputs)) < 0.5, axis=1, bitorder="little")
        arrays[f"W{layer}_shape"] = np.array([outputs, inputs])
        arrays[f"T{layer}"] = np.full(outputs, inputs // 2, np.int32)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def sound_files(folder: Path) -> dict[str, bytes]:
    """Content of one file of each kind, by its usual ending."""
    return {
        ".tflite": lite_file(),
        ".h5": keras_file(folder),
        ".pth": checkpoint_file(),
        ".pth.tar": old_checkpoint_file(),
        ".safetensors": safetensors_file(),
        ".npz": finn_file(),
    }


def outcome(content: bytes, path: Path) -> str:
    """What importing a content comes to; any error that is not everbit's is raised."""
    path.write_bytes(content)
    try:
        network = load_network(path)
    except EverbitError as error:
        return type(error).__name__
    height, width, channels = network.input_shape
    assert height * width * channels > 0 and network.classes > 0
    return "imported"


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """A content with bytes changed, exchanged, removed, or cut off."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(len(data)))
        match int(rng.integers(6)):
            case 0:
                data[at] ^= 1 << int(rng.integers(8))
            case 1:
                data[at : at + 4] = int(rng.choice([0, 1, 2**31 - 1, 2**31, 2**32 - 1])).to_bytes(4, "little")
            case 2:
                data[at : at + 8] = rng.integers(0, 256, 8, np.uint8).tobytes()
            case 3:
                other = int(rng.integers(len(data)))
                data[at : at + 16] = data[other : other + 16]
            case 4:
                del data[at : at + int(rng.integers(1, 9))]
            case _:
                if rng.random() < 0.2:
                    del data[max(1, at) :]
    return bytes(data)
