"""Labeled image sets by name, read from one ``.npz`` file each; docs/data.md says how to lay the files out."""

from __future__ import annotations

import dataclasses
import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from everbit.data.images import fit_images
from everbit.data.strips import read_strips
from everbit.errors import DataError

Split = tuple[NDArray[np.uint8], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test images with class numbers 0..C-1.

    Images are uint8 [N, H, W, channels] and labels int64 [N]. ``train_group`` int64 [N] tells which training images
    were taken together (a track of video frames, a recording session) and is None where every image stands alone; the
    new-instances stream never splits a group. ``pad_crop_flip`` says whether training may use
    ``everbit.data.augment.pad_crop_flip``. Raises DataError where the parts do not fit together.
    """

    name: str
    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    train_group: NDArray[np.int64] | None
    license_note: str
    pad_crop_flip: bool

    def __post_init__(self) -> None:
        for split, images, labels in (
            ("training", self.train_images, self.train_labels),
            ("test", self.test_images, self.test_labels),
        ):
            if images.dtype != np.uint8 or images.ndim != 4 or len(images) == 0:
                raise DataError(
                    f"data set {self.name!r}: the {split} images are {images.dtype} of shape {list(images.shape)}; "
                    "they must be uint8 [N, H, W, channels] with N >= 1"
                )
            if labels.shape != (len(images),):
                raise DataError(
                    f"data set {self.name!r}: {len(images)} {split} images but labels of shape {list(labels.shape)}; "
                    "there must be one label for each image"
                )
            if labels.min() < 0 or labels.max() >= len(self.class_names):
                raise DataError(
                    f"data set {self.name!r}: {split} labels run from {labels.min()} to {labels.max()}; "
                    f"its {len(self.class_names)} classes are numbered from 0"
                )
        if self.train_group is not None and self.train_group.shape != self.train_labels.shape:
            raise DataError(
                f"data set {self.name!r}: {len(self.train_labels)} training images but "
                f"group numbers of shape {list(self.train_group.shape)}; there must be one for each image"
            )

    def fitted(self, shape: tuple[int, int, int]) -> Dataset:
        """The same set with all images in a model's shape (height, width, channels).

        Images are resized, gray ones get equal channels. Raises ImageError where the channels cannot be made to fit.
        """
        if self.train_images.shape[1:] == shape:
            return self
        train, test = (fit_images(images, shape) for images in (self.train_images, self.test_images))
        return dataclasses.replace(self, train_images=train, test_images=test)


@dataclass(frozen=True)
class Source:
    """Where a data set comes from and what is peculiar about its file."""

    file: str
    class_count: int
    url: str
    license_note: str
    pad_crop_flip: bool = False
    test_split: str = "test"
    track_key: str | None = None
    """Array that numbers the tracks of the training images, from 0 in each class."""
    test_sessions: tuple[int, ...] = ()
    """Where not empty: the file has one split and an array ``session``, and these sessions are the test set."""
    packaged: bool = False
    """Whether the file is part of the package: 28x28 gray images, brought to 32x32x3."""


SOURCES: dict[str, Source] = {
    "cifar10": Source(
        "cifar10.npz",
        10,
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        "No explicit license; cite Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.",
        pad_crop_flip=True,
    ),
    "cifar100": Source(
        "cifar100_q95.npz",
        100,
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        "No explicit license; cite Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.",
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
    "fashion_demo": Source(
        "fashion_demo.npz",
        10,
        "https://github.com/zalandoresearch/fashion-mnist",
        "Subset of Fashion-MNIST, copyright 2017 Zalando SE, MIT license (FASHION_MNIST_LICENSE).",
        packaged=True,
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


def load(name: str, root: str | Path | None = None) -> Dataset:
    """Read the data set ``name``, a key of ``SOURCES``, with all its images decoded.

    ``root`` is the folder that holds the file; without it the environment variable EVERBIT_DATA names the folder, else
    it is ``./data``. ``fashion_demo`` lies in the package and needs none. Images stay in the file's order, which is
    sorted by class for some sets: a stream shuffles them. Raises DataError where the name is unknown or the file is
    missing or damaged.
    """
    if name not in SOURCES:
        raise DataError(f"unknown data set {name!r}: choose one of {', '.join(SOURCES)}")
    source = SOURCES[name]
    path = _locate(source, root)
    to_format = _gray_to_32x32x3 if source.packaged else np.asarray
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("not an .npz archive, or cut short")
        splits, extra = _read(path)
        names = tuple(str(label) for label in extra.get("label_names", range(source.class_count)))
        if len(names) != source.class_count:
            raise ValueError(f"{len(names)} class names instead of {source.class_count}")
        train, test, group = _partition(source, splits, extra)
        return Dataset(
            name=name,
            train_images=to_format(train[0]),
            train_labels=train[1],
            test_images=to_format(test[0]),
            test_labels=test[1],
            class_names=names,
            train_group=group,
            license_note=source.license_note,
            pad_crop_flip=source.pad_crop_flip,
        )
    except (OSError, KeyError, ValueError, IndexError, EOFError, zlib.error, zipfile.BadZipFile, DataError) as error:
        cure = "install everbit again" if source.packaged else f"copy it again, or make it from {source.url}"
        raise DataError(
            f"{path} cannot be read as the data set {name!r} ({error}): {cure}; docs/data.md describes the file"
        ) from error


def _locate(source: Source, root: str | Path | None) -> Path:
    """The file of ``source``, found to exist."""
    if source.packaged:
        return Path(__file__).with_name(source.file)
    variable = os.environ.get("EVERBIT_DATA")
    if root is not None:
        folder, origin = Path(root), "the root you gave"
    elif variable:
        folder, origin = Path(variable), "from the environment variable EVERBIT_DATA"
    else:
        folder, origin = Path("data"), "the default"
    path = folder / source.file
    if not path.is_file():
        raise DataError(
            f"{source.file} is not in {folder.absolute()} ({origin}). Get the original data set at {source.url}, "
            "store it as docs/data.md describes, and name the folder that holds it by root (--root on the command "
            "line) or by the environment variable EVERBIT_DATA"
        )
    return path


def _read(path: Path) -> tuple[dict[str, Split], dict[str, NDArray[np.generic]]]:
    """Splits by name (a file with one split calls it ``all``), and every array that holds neither images nor strips."""
    with np.load(path, allow_pickle=False) as archive:
        extra = {
            key: archive[key]
            for key in archive.files
            if key not in ("strips", "images") and not key.endswith("_images")
        }
        if "strips" in archive.files:
            return read_strips(path), extra
        splits = {}
        for key in archive.files:
            if key == "images" or key.endswith("_images"):
                images = archive[key]
                labels = extra[key.replace("images", "labels")].astype(np.int64)
                splits[key.removesuffix("_images") if key != "images" else "all"] = (
                    images[..., None] if images.ndim == 3 else images,
                    labels,
                )
        return splits, extra


def _partition(
    source: Source, splits: dict[str, Split], extra: dict[str, NDArray[np.generic]]
) -> tuple[Split, Split, NDArray[np.int64] | None]:
    """Training split, test split and group numbers of the training images."""
    if source.test_sessions:
        images, labels = splits["all"]
        session = extra["session"].astype(np.int64)
        held_out = np.isin(session, source.test_sessions)
        return (images[~held_out], labels[~held_out]), (images[held_out], labels[held_out]), session[~held_out]
    train, test = splits["train"], splits[source.test_split]
    if source.track_key is None:
        return train, test, None
    tracks = np.stack([train[1], extra[source.track_key].astype(np.int64)])
    group = np.unique(tracks, axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return train, test, group


def _gray_to_32x32x3(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """uint8 [N, 28, 28, 1] to [N, 32, 32, 3]: two zero pixels on each side, the gray channel three times."""
    return np.repeat(np.pad(images, ((0, 0), (2, 2), (2, 2), (0, 0))), 3, axis=3)
