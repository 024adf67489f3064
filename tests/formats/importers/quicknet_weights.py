"""Keras weight files of larq's QuickNets, made in tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np

Layers = list[tuple[str, dict[str, np.ndarray]]]

PLANS = {
    "quicknet": ((4, 4, 4, 4), (64, 128, 256, 512), 16),
    "quicknet_small": ((4, 4, 4, 4), (32, 64, 256, 512), 8),
    "quicknet_large": ((6, 8, 12, 6), (64, 128, 256, 512), 16),
}
BINOMIAL = np.outer([1.0, 2.0, 1.0], [1.0, 2.0, 1.0]) / 16


def quicknet_layers(name: str, classes: int = 7, divide: int = 8, first: int = 0) -> Layers:
    """Layers of a QuickNet with `divide` times fewer filters, numbered from `first` on, in no order of names."""
    rng = np.random.default_rng(4)
    blocks, filters, stem = PLANS[name]
    filters, stem = tuple(n // divide for n in filters), max(1, stem // divide)
    counters = dict.fromkeys(("quant_conv2d", "depthwise_conv2d", "batch_normalization"), first)

    def called(kind: str) -> str:
        number = counters[kind]
        counters[kind] += 1
        return f"{kind}_{number}" if number else kind

    def conv(inputs: int, outputs: int, kernel: int, binary: bool = False) -> tuple[str, dict[str, np.ndarray]]:
        shape = (kernel, kernel, inputs, outputs)
        values = rng.choice([-0.5, 0.5], shape) if binary else rng.normal(size=shape) / (kernel**2 * inputs) ** 0.5
        return called("quant_conv2d"), {"kernel": values.astype(np.float32)}

    def norm(channels: int, affine: bool = True, spread: float = 1.0) -> tuple[str, dict[str, np.ndarray]]:
        values = {
            "moving_mean": rng.normal(size=channels) * spread / 3,
            "moving_variance": rng.uniform(0.5, 2, channels) * spread**2,
        }
        if affine:
            values |= {"gamma": rng.uniform(0.5, 1.5, channels), "beta": rng.normal(size=channels) / 3}
        return called("batch_normalization"), {key: value.astype(np.float32) for key, value in values.items()}

    def made() -> Iterator[tuple[str, dict[str, np.ndarray]]]:
        yield conv(3, stem, 3)
        yield norm(stem)
        depthwise = rng.normal(size=(3, 3, stem, 1)).astype(np.float32) / 3
        yield "quant_depthwise_conv2d", {"depthwise_kernel": depthwise}
        yield norm(stem, affine=False)
        yield conv(stem, filters[0], 1)
        yield norm(filters[0])
        for section, channels in enumerate(filters):
            for _ in range(blocks[section]):
                yield conv(channels, channels, 3, binary=True)
                yield norm(channels, spread=(9 * channels) ** 0.5)
            if section < len(filters) - 1:
                blur = np.repeat(BINOMIAL[:, :, None, None], channels, axis=2).astype(np.float32)
                yield called("depthwise_conv2d"), {"depthwise_kernel": blur}
                yield conv(channels, filters[section + 1], 1)
                yield norm(filters[section + 1])
        head = rng.normal(size=(filters[-1], classes)).astype(np.float32) / 8
        yield "quant_dense", {"kernel": head, "bias": rng.normal(size=classes).astype(np.float32)}

    return list(made())


def write_keras(layers: Layers, path: Path, group: str = "") -> Path:
    """A file as Keras writes weights; `group`: where a whole model's file has them."""
    with h5py.File(path, "w") as file:
        root = file.create_group(group) if group else file
        names = [name for name, _ in layers] + ["activation"]
        root.attrs["layer_names"] = [name.encode() for name in names]
        root.create_group("activation").attrs["weight_names"] = np.array([])
        for name, weights in layers:
            member = root.create_group(name)
            member.attrs["weight_names"] = [f"{name}/{key}:0".encode() for key in weights]
            for key, value in weights.items():
                member.create_dataset(f"{name}/{key}:0", data=value, compression="gzip")
    return path
