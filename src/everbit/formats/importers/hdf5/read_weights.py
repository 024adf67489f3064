"""Reads a Keras weight file in a process of its own: python read_weights.py FILE OUT.

HDF5's C library does not always come to an end with a damaged file, or ends with a crash. This program takes no more
than so much time and memory, imports nothing of everbit, and writes the weights to OUT, a safetensors file, by name:
`LAYER/WEIGHT`. It exits with REFUSED where the file is damaged, the reason on stderr.
"""

from __future__ import annotations

import resource
import sys

import h5py
import numpy as np
from safetensors.numpy import save_file

REFUSED = 3
MOST_SECONDS, MOST_MEMORY = 30, 4 * 2**30
"""Of processor time; bytes of address space."""
MOST_LAYERS, MOST_BYTES = 2000, 2**29
"""Most layers, and most bytes of all weights."""


def text(name: object) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


def member(group: h5py.Group, name: str) -> h5py.Group | h5py.Dataset:
    """A member of a group by its path; no link leads to another file."""
    found = group
    for part in name.split("/"):
        if not isinstance(found.get(part, getlink=True), h5py.HardLink):
            raise ValueError(f"{name!r} is missing or a link to another place")
        found = found[part]
    return found


def weights(path: str) -> dict[str, np.ndarray]:
    """Every weight of a file by name."""
    arrays: dict[str, np.ndarray] = {}
    left = MOST_BYTES
    with h5py.File(path, "r") as file:
        root = file.get("model_weights", file)
        for layer in [text(name) for name in root.attrs["layer_names"][:MOST_LAYERS]]:
            group = member(root, layer)
            for weight in map(text, group.attrs["weight_names"]):
                found = member(group, weight)
                name = f"{layer}/{weight.rpartition('/')[2].removesuffix(':0')}"
                if not isinstance(found, h5py.Dataset) or found.external or found.is_virtual:
                    raise ValueError(f"{name} holds no values of its own")
                if found.dtype.kind not in "fiu":
                    raise ValueError(f"{name} holds {found.dtype}")
                left -= found.size * found.dtype.itemsize
                if left < 0:
                    raise ValueError(f"{name} of shape {list(found.shape)} is larger than any QuickNet")
                arrays[name] = found[()]
    return arrays


def main(path: str, out: str) -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    try:
        save_file(weights(path), out)
    except Exception as error:
        print(error, file=sys.stderr)
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
