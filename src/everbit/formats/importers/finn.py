"""Weights of FINN's BNN-PYNQ networks, CNV and LFC, as exact networks.

The archive: `W{i}_bits`, np.packbits(little) of the weights' bits (1 is +1), a row for each output, columns in the
order (height, width, input); `W{i}_shape`; thresholds `T{i}`; `classes`, their names, perhaps.

CNV: the first layer reads floor((x/127.5 - 1) * 128) / 128, at most 127/128 (the input is a signed byte), and fires
where its sum exceeds T/256, the others where their count of agreeing bits exceeds T; 2x2 max pools behind layers 1 and
3, no borders. LFC: its input's bits are [pixel >= 128], followed by bits 0 up to the first layer's size. The last
layer's counts are the logits of its first outputs.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from everbit.errors import FormatError, UnsupportedError
from everbit.formats.importers.network import ImportedNetwork
from everbit.formats.importers.stored_tensors import StoredTensors
from everbit.nn.binary import BinaryConv2d, BinaryLinear, Sign
from everbit.nn.quantize import FloorQuantize

MOST_LAYERS, MOST_SIDE = 64, 2**16
CLASSES = 10
"""Of an archive that does not name them: CIFAR-10's and MNIST's."""

CNV_IMAGE, LFC_IMAGE = (32, 32, 3), (28, 28, 1)
POOLED_LAYERS = (1, 3)
INPUT_FRACTION, THRESHOLD_FRACTION = 7, 8
"""Bits behind the point of CNV's input and of its first thresholds."""

Bits = NDArray[np.uint8]
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


def is_finn(tensors: StoredTensors) -> bool:
    """Whether an archive has the names of such a network."""
    return all(name in tensors for name in ("W0_bits", "W0_shape", "T0"))


def load_finn(tensors: StoredTensors) -> ImportedNetwork:
    """The network of an archive. Raises FormatError, UnsupportedError."""
    count = next((i for i in range(MOST_LAYERS) if f"W{i}_bits" not in tensors), MOST_LAYERS)
    shapes = [_shape(tensors, layer) for layer in range(count)]
    labels = _labels(tensors)
    classes = CLASSES if labels is None else len(labels)
    if not shapes or not 0 < classes <= shapes[-1][0]:
        raise FormatError(f"{tensors.path} names {classes} classes for its last layer's outputs: copy it again")
    convolutional = len(shapes[0]) == 4
    steps = _cnv(tensors, shapes, classes) if convolutional else _lfc(tensors, shapes, classes)
    image = CNV_IMAGE if convolutional else LFC_IMAGE
    source = "FINN CNV" if convolutional else "FINN LFC"
    network = nn.Sequential(steps).eval()
    norms = tuple(
        path for path, module in network.named_modules() if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d))
    )
    return ImportedNetwork(network, image, classes, source, labels=labels, folded_norms=norms)


def _labels(tensors: StoredTensors) -> tuple[str, ...] | None:
    """Names of the classes, all different, where an archive has them."""
    found = tensors.tensors.get("classes")
    if found is None:
        return None
    labels = tuple(str(label) for label in found.read().ravel()) if found.dtype.startswith("str") else ()
    if len(set(labels)) != len(labels) or found.shape != (len(labels),):
        raise FormatError(f"{tensors.path}: classes are {found.dtype} {list(found.shape)}, not names, all different")
    return labels


def _cnv(tensors: StoredTensors, shapes: list[tuple[int, ...]], classes: int) -> OrderedDict[str, nn.Module]:
    steps: OrderedDict[str, nn.Module] = OrderedDict(
        quantize=FloorQuantize(INPUT_FRACTION), saturate=nn.Hardtanh(-1.0, 1 - 2.0**-INPUT_FRACTION)
    )
    height, width, channels = CNV_IMAGE
    kernels = [shape[1] for shape in shapes]
    convolutions = sum(kernel > 1 for kernel in kernels)
    for layer, shape in enumerate(shapes[:convolutions]):
        outputs, kernel = shape[0], shape[1]
        if shape[1:] != (kernel, kernel, channels):
            raise UnsupportedError(
                f"{tensors.path}: W{layer} is {list(shape)} behind {channels} channels: it is no CNV"
            )
        conv = BinaryConv2d(channels, outputs, kernel, padding=0, scale=False)
        bits = _bits(tensors, layer, shape).reshape(shape).transpose(0, 3, 1, 2)
        _set(conv, bits)
        block = OrderedDict[str, nn.Module]()
        if layer > 0:
            block["sign"] = Sign("ste_sign")
        block["conv"] = conv
        height, width, channels = height - kernel + 1, width - kernel + 1, outputs
        if layer in POOLED_LAYERS:
            block["pool"] = nn.MaxPool2d(2)
            height, width = height // 2, width // 2
        thresholds = _thresholds(tensors, layer, outputs)
        if layer == 0:
            # Sums are whole numbers of 2^-7, thresholds of 2^-8: half a step of the sums above the threshold's own.
            limit = (np.floor(thresholds / 2) + 0.5) / 2**INPUT_FRACTION
        else:
            limit = _limits(thresholds, bits[0].size)
        block["bn"] = _norm(nn.BatchNorm2d(outputs), limit)
        steps[f"block{layer + 1}"] = nn.Sequential(block)
    if (height, width) != (1, 1):
        raise UnsupportedError(f"{tensors.path} ends its convolutions in a map of {height}x{width}: it is no CNV")
    steps["flatten"] = nn.Flatten()
    return _dense(tensors, shapes, convolutions, channels, classes, steps)


def _lfc(tensors: StoredTensors, shapes: list[tuple[int, ...]], classes: int) -> OrderedDict[str, nn.Module]:
    steps: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
    return _dense(tensors, shapes, 0, int(np.prod(LFC_IMAGE)), classes, steps)


def _dense(
    tensors: StoredTensors,
    shapes: list[tuple[int, ...]],
    first: int,
    inputs: int,
    classes: int,
    steps: OrderedDict[str, nn.Module],
) -> OrderedDict[str, nn.Module]:
    """Appends the dense layers from `first` on, the last of them as the head."""
    last = len(shapes) - 1
    for layer in range(first, len(shapes)):
        shape = (shapes[layer][0], int(np.prod(shapes[layer][1:])))
        bits = _bits(tensors, layer, shape)
        if shape[1] < inputs or (shape[1] > inputs and layer > 0):
            raise UnsupportedError(f"{tensors.path}: W{layer} is {list(shape)} behind {inputs} values: it is no chain")
        # Input bits 0 agree with weight bits 0.
        agreeing = (bits[:, inputs:] == 0).sum(axis=1)
        bits = bits[:classes, :inputs] if layer == last else bits[:, :inputs]
        linear = BinaryLinear(inputs, len(bits), scale=False)
        _set(linear, bits)
        parts: OrderedDict[str, nn.Module] = OrderedDict(sign=Sign("ste_sign"), linear=linear)
        if layer < last:
            limit = _limits(_thresholds(tensors, layer, len(bits)) - agreeing, inputs)
            parts["bn"] = _norm(nn.BatchNorm1d(len(bits)), limit)
        steps["head" if layer == last else f"dense{layer - first + 1}"] = nn.Sequential(parts)
        inputs = len(bits)
    return steps


def _limits(thresholds: NDArray[np.float64], terms: int) -> NDArray[np.float64]:
    """What the sum z = 2 count - K must exceed for count > T: between the sums of count T and T + 1."""
    return np.clip(2 * thresholds - terms + 1, -terms - 1, terms + 1)


@torch.no_grad()
def _norm(module: nn.BatchNorm1d | nn.BatchNorm2d, limit: NDArray[np.float64]) -> nn.Module:
    """z - limit: never 0, so that its sign is the threshold's decision."""
    module.eps = 0.0
    assert module.running_mean is not None
    module.running_mean.copy_(torch.from_numpy(limit.astype(np.float32)))
    return module


def _set(module: BinaryConv2d | BinaryLinear, bits: Bits) -> None:
    signs = torch.from_numpy(np.ascontiguousarray(bits).astype(np.float32) * 2 - 1)
    module.set_binary(signs, torch.ones(len(signs)))


def _shape(tensors: StoredTensors, layer: int) -> tuple[int, ...]:
    """[out, height, width, in] or [out, in]; the archive writes those of square kernels as [out, height, width, in]."""
    stored = tensors.shape(f"W{layer}_shape")
    if stored not in ((2,), (4,)):
        raise FormatError(f"{tensors.path}: W{layer}_shape has the shape {list(stored)}: copy it again")
    shape = tuple(int(size) for size in _whole(tensors, f"W{layer}_shape", stored))
    if not all(0 < size <= MOST_SIDE for size in shape):
        raise FormatError(f"{tensors.path}: W{layer}_shape is {list(shape)}: copy it again")
    return shape


def _bits(tensors: StoredTensors, layer: int, shape: tuple[int, ...]) -> Bits:
    """Bits [out, in] of a layer, uint8."""
    columns = int(np.prod(shape[1:]))
    packed = _whole(tensors, f"W{layer}_bits", (shape[0], (columns + 7) // 8), "uint8")
    return np.unpackbits(packed.astype(np.uint8), axis=1, count=columns, bitorder="little")


def _thresholds(tensors: StoredTensors, layer: int, outputs: int) -> NDArray[np.float64]:
    return _whole(tensors, f"T{layer}", (outputs,)).astype(np.float64)


def _whole(tensors: StoredTensors, name: str, shape: tuple[int, ...], dtype: str = "int") -> NDArray[np.generic]:
    """Whole numbers of a tensor of that shape."""
    found = tensors.tensors.get(name)
    if found is None or found.shape != shape or not found.dtype.startswith(dtype):
        what = "is missing" if found is None else f"is {found.dtype} {list(found.shape)}"
        raise FormatError(f"{tensors.path}: {name} {what}, expected {dtype} {list(shape)}: copy the file again")
    return found.read()
