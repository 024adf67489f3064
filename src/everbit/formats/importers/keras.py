"""Keras weight files (`.h5`) of larq's QuickNets, as the zoo's networks.

Layers are found by the kind in their names and its number, in the order in which larq's zoo makes them: convolutions
(`quant_conv2d`, `quant_conv2d_1`, ...), the stem's depthwise convolution, blurs, batch norms, the dense layer.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file
from torch import nn

from everbit.errors import FormatError, UnsupportedError
from everbit.formats.importers.hdf5 import read_weights
from everbit.formats.importers.network import ImportedNetwork
from everbit.formats.importers.stored_tensors import Floats, StoredTensor, StoredTensors, fill
from everbit.nn.binary import BinaryConv2d
from everbit.nn.windows import BlurPool2d
from everbit.zoo.cuts import NETWORKS
from everbit.zoo.quicknet import QUICKNET, QUICKNET_LARGE, QUICKNET_SMALL, Layout
from everbit.zoo.registry import build
from everbit.zoo.stem import scaled

LAYOUTS: dict[str, Layout] = {
    "quicknet": QUICKNET,
    "quicknet_small": QUICKNET_SMALL,
    "quicknet_large": QUICKNET_LARGE,
}

MOST_FILTERS = 2**16
BINOMIAL = np.outer([1.0, 2.0, 1.0], [1.0, 2.0, 1.0]) / 16

_NUMBERED = re.compile(r"^(?P<kind>.*?)(?:_(?P<number>\d+))?$")


def read_keras(path: Path) -> StoredTensors:
    """The weights of a file by name, `LAYER/WEIGHT`. Raises FormatError where it is damaged, or has links."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "weights.safetensors"
        done = subprocess.run(
            [sys.executable, read_weights.__file__, str(path), str(out)], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return StoredTensors(path, {name: _stored(values) for name, values in load_file(out).items()})
    # Without a reason of its own the reader was stopped: by its limits, or by a crash of HDF5's library.
    reason = (
        done.stderr.strip() if done.returncode == read_weights.REFUSED else "HDF5's library comes to no end with it"
    )
    raise FormatError(
        f"{path} is damaged, or was not written to its end ({reason}): save the weights again, copy the whole file"
    )


def _stored(values: NDArray[np.generic]) -> StoredTensor:
    return StoredTensor(values.shape, values.dtype.name, lambda: values)


def load_keras(tensors: StoredTensors) -> ImportedNetwork:
    """The QuickNet of a file. Raises UnsupportedError for other networks, FormatError for wrong tensors."""
    layers = _Layers(tensors)
    name, width, classes = _architecture(layers)
    network = build(name, width, classes, "imagenet")
    convolutions, norms, blurs = iter(layers.of("quant_conv2d")), iter(layers.of("batch_normalization")), 0
    for path, module in network.named_modules():
        if isinstance(module, BinaryConv2d):
            kernel = _kernel(tensors, next(convolutions), tuple(module.weight.shape))
            module.set_binary(torch.from_numpy(kernel), torch.ones(len(kernel)))
        elif path == "stem.depthwise":
            assert isinstance(module, nn.Conv2d)
            depthwise = f"{layers.of('quant_depthwise_conv2d')[0]}/depthwise_kernel"
            values = tensors.take(depthwise, (*module.kernel_size, module.out_channels, 1))
            fill(module.weight, np.ascontiguousarray(values.transpose(2, 3, 0, 1)))
        elif isinstance(module, nn.Conv2d):
            fill(module.weight, _kernel(tensors, next(convolutions), tuple(module.weight.shape)))
        elif isinstance(module, BlurPool2d):
            _check_blur(tensors, layers.of("depthwise_conv2d")[blurs])
            blurs += 1
        elif isinstance(module, nn.BatchNorm2d):
            _fill_norm(tensors, next(norms), module)
        elif isinstance(module, nn.Linear):
            dense = layers.of("quant_dense")[0]
            kernel = tensors.take(f"{dense}/kernel", (module.in_features, module.out_features))
            fill(module.weight, np.ascontiguousarray(kernel.T))
            fill(module.bias, tensors.take(f"{dense}/bias", (module.out_features,)))
    tensors.finish()
    image = NETWORKS[name].stems["imagenet"]
    return ImportedNetwork(network.eval(), image, classes, "Keras weights of larq's zoo", name, width, "imagenet")


class _Layers:
    """Names of layers by kind, in the order of their numbers: a name without one is first."""

    def __init__(self, tensors: StoredTensors) -> None:
        self.tensors = tensors
        self.kinds: dict[str, list[tuple[int, str]]] = {}
        for name in dict.fromkeys(name.rpartition("/")[0] for name in tensors):
            match = _NUMBERED.match(name)
            assert match is not None
            self.kinds.setdefault(match["kind"], []).append((int(match["number"] or 0), name))

    def of(self, kind: str) -> Sequence[str]:
        """Names of the layers of a kind, in order."""
        return [name for _, name in sorted(self.kinds.get(kind, []))]

    def counts(self) -> dict[str, int]:
        return {kind: len(names) for kind, names in self.kinds.items()}


def _architecture(layers: _Layers) -> tuple[str, float, int]:
    """Name, width and number of classes of the network whose layers these are."""
    tensors, counts = layers.tensors, layers.counts()
    for name, layout in LAYOUTS.items():
        blocks, transitions = sum(layout.blocks), len(layout.filters) - 1
        expected = {
            "quant_conv2d": blocks + transitions + 2,
            "quant_depthwise_conv2d": 1,
            "depthwise_conv2d": transitions,
            "batch_normalization": blocks + transitions + 3,
            "quant_dense": 1,
        }
        if counts != expected:
            continue
        kernels = [tensors.shape(f"{layer}/kernel") for layer in layers.of("quant_conv2d")]
        head = tensors.shape(f"{layers.of('quant_dense')[0]}/kernel")
        if any(len(kernel) != 4 or not 0 < kernel[3] <= MOST_FILTERS for kernel in kernels) or len(head) != 2:
            raise FormatError(f"{tensors.path}: its first kernels are {kernels[:2]}, its last {head}: it is damaged")
        width = kernels[1][3] / layout.filters[0]
        # Behind the stem's first convolution, the 1x1 ones widen to the next section.
        widened = [kernel[3] for kernel in kernels if kernel[0] == 1]
        if widened == [scaled(count, width) for count in layout.filters] and 0 < head[1] <= MOST_FILTERS:
            return name, width, head[1]
    found = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    raise UnsupportedError(
        f"{tensors.path} holds {found or 'no layers'}, which is none of {', '.join(LAYOUTS)}: "
        "convert other networks to .tflite with Larq Compute Engine and import that"
    )


def _kernel(tensors: StoredTensors, layer: str, shape: tuple[int, ...]) -> Floats:
    """A kernel [height, width, in, out] as [out, in, height, width]."""
    outputs, inputs, height, width = shape
    values = tensors.take(f"{layer}/kernel", (height, width, inputs, outputs))
    return np.ascontiguousarray(values.transpose(3, 2, 0, 1))


def _fill_norm(tensors: StoredTensors, layer: str, module: nn.BatchNorm2d) -> None:
    shape = (module.num_features,)
    assert module.running_mean is not None and module.running_var is not None
    mean, variance = (tensors.take(f"{layer}/{name}", shape) for name in ("moving_mean", "moving_variance"))
    if (variance < 0).any():
        raise FormatError(f"{tensors.path}: {layer} has a negative variance: save the weights again")
    fill(module.running_mean, mean)
    fill(module.running_var, variance)
    if module.affine:
        fill(module.weight, tensors.take(f"{layer}/gamma", shape))
        fill(module.bias, tensors.take(f"{layer}/beta", shape))


def _check_blur(tensors: StoredTensors, layer: str) -> None:
    name = f"{layer}/depthwise_kernel"
    shape = tensors.shape(name)
    if len(shape) != 4 or shape[2] > 2**16:
        raise FormatError(f"{tensors.path}: {name} has the shape {list(shape)}: it is damaged")
    values = tensors.take(name, (3, 3, shape[2], 1))
    if not np.allclose(values, BINOMIAL[:, :, None, None], rtol=0, atol=1e-6):
        raise UnsupportedError(f"{tensors.path}: {name} is not the binomial filter of QuickNet's blur pools")
