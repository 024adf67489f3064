"""CIFAR-10 and CIFAR-100 from their binary versions: each record is its labels and 3 x 32 x 32 bytes."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from everbit.data.archives.arrays import Arrays

PIXELS = 3 * 32 * 32


def cifar10(files: Mapping[str, Path]) -> Arrays:
    """The arrays of CIFAR-10."""
    with tarfile.open(files["cifar-10-binary.tar.gz"]) as archive:
        folder = "cifar-10-batches-bin"
        train = [f"{folder}/data_batch_{number}.bin" for number in range(1, 6)]
        return _arrays(archive, train, f"{folder}/test_batch.bin", f"{folder}/batches.meta.txt", label_bytes=1)


def cifar100(files: Mapping[str, Path]) -> Arrays:
    """The arrays of CIFAR-100, with its fine labels."""
    with tarfile.open(files["cifar-100-binary.tar.gz"]) as archive:
        folder = "cifar-100-binary"
        names = f"{folder}/fine_label_names.txt"
        return _arrays(archive, [f"{folder}/train.bin"], f"{folder}/test.bin", names, label_bytes=2)


def _arrays(archive: tarfile.TarFile, train: Sequence[str], test: str, names: str, label_bytes: int) -> Arrays:
    arrays = {}
    for split, members in (("train", train), ("test", [test])):
        content = b"".join(_content(archive, member) for member in members)
        records = np.frombuffer(content, np.uint8).reshape(-1, label_bytes + PIXELS)
        arrays[f"{split}_images"] = records[:, label_bytes:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        arrays[f"{split}_labels"] = records[:, label_bytes - 1]
    return arrays | {"label_names": np.array(_content(archive, names).decode("ascii").split())}


def _content(archive: tarfile.TarFile, member: str) -> bytes:
    file = archive.extractfile(member)
    if file is None:
        raise KeyError(f"{member} is no file")
    with file:
        return file.read()
