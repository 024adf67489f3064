"""Build src/everbit/data/fashion_demo.npz, the image set of `everbit demo`, from Fashion-MNIST.

On Debian: apt-get install dataset-fashion-mnist, then run this script from the repository root with everbit installed.
For each class 200 of the 6,000 training and 100 of the 1,000 test images are taken: the first ones of an order drawn by
SEED, the split and the class. They are stored in the order of the original files, 28x28 gray, lossless. The same input
gives the same arrays on every machine.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everbit.data.archives.idx import FASHION, read_idx
from everbit.data.permutation import seeded_permutation

SEED = 2017
TRAIN_IMAGES_PER_CLASS = 200
TEST_IMAGES_PER_CLASS = 100


def choose(labels: NDArray[np.uint8], per_class: int, split: int) -> NDArray[np.int64]:
    """Sorted indices of ``per_class`` images of each class."""
    chosen = []
    for label in range(len(FASHION)):
        indices = np.flatnonzero(labels == label)
        chosen.append(indices[seeded_permutation(len(indices), SEED, split, label)[:per_class]])
    return np.sort(np.concatenate(chosen))


def make_fashion_demo(folder: Path) -> dict[str, Any]:
    """The arrays of the file, from the four original files in ``folder``."""
    arrays: dict[str, Any] = {"label_names": np.array(FASHION)}
    splits = (("train", "train", TRAIN_IMAGES_PER_CLASS), ("test", "t10k", TEST_IMAGES_PER_CLASS))
    for index, (split, prefix, per_class) in enumerate(splits):
        images = read_idx(folder / f"{prefix}-images-idx3-ubyte.gz")
        labels = read_idx(folder / f"{prefix}-labels-idx1-ubyte.gz")
        chosen = choose(labels, per_class, index)
        arrays[f"{split}_images"], arrays[f"{split}_labels"] = images[chosen], labels[chosen]
    return arrays


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--output", type=Path, default=Path("src/everbit/data/fashion_demo.npz"))
    arguments = parser.parse_args()
    temporary = arguments.output.with_name(f"making_{arguments.output.name}")
    np.savez_compressed(temporary, **make_fashion_demo(arguments.source))
    os.replace(temporary, arguments.output)
    print(f"{arguments.output}: {arguments.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
