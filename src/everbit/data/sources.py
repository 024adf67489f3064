"""The data sets that go by a name: where each comes from, its terms, and what is peculiar about its files."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """Where a data set comes from and what is peculiar about its file.

    file: its name, or a folder's. other_files: names under which it is found too.
    """

    file: str
    class_count: int
    url: str
    license_note: str
    other_files: tuple[str, ...] = ()
    pad_crop_flip: bool = False
    test_split: str = "test"
    track_key: str | None = None
    """Array that numbers the tracks of the training images, from 0 in each class."""
    test_sessions: tuple[int, ...] = ()
    """Where not empty: the file has one split and an array ``session``, and these sessions are the test set."""
    packaged: bool = False
    """Whether the file is part of the package: 28x28 gray images, brought to 32x32x3."""
    layout: str = "npz"
    """What reads it: a key of ``everbit.data.datasets.LAYOUTS``."""


_CIFAR = "No explicit license; cite Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009."
_CORE50 = "CC BY 4.0; cite Lomonaco and Maltoni, CORe50: a New Dataset and Benchmark, CoRL 2017."

SOURCES: dict[str, Source] = {
    "cifar10": Source("cifar10.npz", 10, "https://www.cs.toronto.edu/~kriz/cifar.html", _CIFAR, pad_crop_flip=True),
    "cifar100": Source(
        "cifar100.npz",
        100,
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        _CIFAR,
        other_files=("cifar100_q95.npz",),
        pad_crop_flip=True,
    ),
    "gtsrb": Source(
        "gtsrb43_32.npz",
        43,
        "https://benchmark.ini.rub.de/gtsrb_dataset.html",
        "Free for research; cite Stallkamp et al., Man vs. computer, Neural Networks 32, 2012.",
        track_key="train_track",
    ),
    "coil": Source(
        "coil50_128.npz",
        50,
        "https://www.cs.columbia.edu/CAVE/software/softlib/coil-100.php",
        "For research only; cite Nene, Nayar and Murase, Columbia Object Image Library (COIL-100), 1996.",
        test_sessions=(2, 5, 8),
    ),
    "core50": Source("core50", 50, "https://vlomonaco.github.io/core50/", _CORE50, layout="core50"),
    "core50_category": Source("core50", 10, "https://vlomonaco.github.io/core50/", _CORE50, layout="core50"),
    "fashion_demo": Source(
        "fashion_demo.npz",
        10,
        "https://github.com/zalandoresearch/fashion-mnist",
        "Subset of Fashion-MNIST, copyright 2017 Zalando SE, MIT license (FASHION_MNIST_LICENSE).",
        packaged=True,
    ),
    "fashion_mnist": Source(
        "fashion_mnist.npz",
        10,
        "https://github.com/zalandoresearch/fashion-mnist",
        "Copyright 2017 Zalando SE, MIT license.",
    ),
    "mnist": Source(
        "mnist.npz",
        10,
        "http://yann.lecun.com/exdb/mnist/",
        "Copyright Yann LeCun and Corinna Cortes, CC BY-SA 3.0.",
    ),
    "tiny_imagenet": Source(
        "tiny_imagenet200_32.npz",
        200,
        "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        "Images of ImageNet: non-commercial research only.",
        pad_crop_flip=True,
        test_split="val",
    ),
}
