"""Which data sets can be fetched: their archives, with the checksums that are published, and what makes files of them.

The MD5 of CIFAR is on its page; the others are those by which torchvision (MNIST, Fashion-MNIST, GTSRB), TensorFlow
Datasets (COIL-100) and Avalanche (CORe50, Tiny ImageNet) verify the same files. That of GTSRB's training images is the
one on which public repositories agree.
"""

from __future__ import annotations

from dataclasses import dataclass

from everbit.data.archives.arrays import Maker, stored
from everbit.data.archives.cifar import cifar10, cifar100
from everbit.data.archives.core50_files import core50_folder
from everbit.data.archives.download import Archive
from everbit.data.archives.idx import fashion_mnist, mnist
from everbit.data.archives.photos import coil, gtsrb, tiny_imagenet


@dataclass(frozen=True)
class Download:
    """The archives of a data set and what makes its file or folder of them. megabytes: of all archives, about."""

    archives: tuple[Archive, ...]
    make: Maker
    megabytes: int


def _archives(folder: str, algorithm: str, digests: dict[str, str]) -> tuple[Archive, ...]:
    return tuple(Archive(file, f"{folder}/{file}", algorithm, digest) for file, digest in digests.items())


_CIFAR = "https://www.cs.toronto.edu/~kriz"
_GTSRB = "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370"
_CORE50 = _archives(
    "http://bias.csr.unibo.it/maltoni/download/core50",
    "md5",
    {"core50_128x128.zip": "745f3373fed08d69343f1058ee559e13"},
) + _archives(
    "https://vlomonaco.github.io/core50/data",
    "md5",
    {
        "paths.pkl": "b568f86998849184df3ec3465290f1b0",
        "LUP.pkl": "33afc26faa460aca98739137fdfa606e",
        "labels.pkl": "281c95774306a2196f4505f22fd60ab1",
    },
)

DOWNLOADS: dict[str, Download] = {
    "cifar10": Download(
        _archives(_CIFAR, "md5", {"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"}), stored(cifar10), 170
    ),
    "cifar100": Download(
        _archives(_CIFAR, "md5", {"cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8"}), stored(cifar100), 169
    ),
    "gtsrb": Download(
        _archives(
            _GTSRB,
            "md5",
            {
                "GTSRB_Final_Training_Images.zip": "f33fd80ac59bff73c82d25ab499e03a3",
                "GTSRB_Final_Test_Images.zip": "c7e4e6327067d32654124b0fe9e82185",
                "GTSRB_Final_Test_GT.zip": "fe31e9c9270bbcd7b84b7f21a9d9d9e5",
            },
        ),
        stored(gtsrb),
        365,
    ),
    "coil": Download(
        _archives(
            "http://www.cs.columbia.edu/CAVE/databases/SLAM_coil-20_coil-100/coil-100",
            "sha256",
            {"coil-100.zip": "fcb4b8b01c0778f416d8d7a09f45082c4f7075cc74743dcddd5c44307bd4afe7"},
        ),
        stored(coil),
        131,
    ),
    "core50": Download(_CORE50, core50_folder, 5900),
    "core50_category": Download(_CORE50, core50_folder, 5900),
    "fashion_mnist": Download(
        _archives(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
            "md5",
            {
                "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
                "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
                "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
            },
        ),
        stored(fashion_mnist),
        31,
    ),
    "mnist": Download(
        _archives(
            "https://ossci-datasets.s3.amazonaws.com/mnist",
            "md5",
            {
                "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
                "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
                "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
            },
        ),
        stored(mnist),
        12,
    ),
    "tiny_imagenet": Download(
        _archives("http://cs231n.stanford.edu", "md5", {"tiny-imagenet-200.zip": "90528d7ca1a48142e341f4ef8d21d0de"}),
        stored(tiny_imagenet),
        248,
    ),
}
