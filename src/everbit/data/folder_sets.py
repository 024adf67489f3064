"""A folder with one folder of images for each class as a data set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from everbit.data.dataset import Dataset
from everbit.data.lazy_images import FileReader, LazyImages, Shape
from everbit.data.permutation import seeded_permutation
from everbit.errors import DataError

HELD_OUT = 5
"""One image of so many of a class is held out for testing where the folder has no test set."""
ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
_LAYOUT = "lay it out as train/CLASS/IMAGE and test/CLASS/IMAGE, or as CLASS/IMAGE alone"


def read_folder(folder: Path) -> Dataset:
    """The images of ``train/CLASS`` and ``test/CLASS``, or of ``CLASS``, read when they are asked for.

    Classes are numbered in the order of their names. Without a folder ``test``, every class holds out a fifth of its
    images, at least one; the same ones for the same file names. Images of any size: they are resized to the size of the
    first one, or to a model's. Raises DataError where there are no images, or a class lacks training images.
    """
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder: check the path")
    split = (folder / "train").is_dir() and (folder / "test").is_dir()
    names = {"train": _files(folder / "train"), "test": _files(folder / "test")} if split else _held_out(_files(folder))
    classes = sorted(names["train"])
    if len(classes) < 2:
        raise DataError(f"{folder} holds images of {len(classes)} class(es): {_LAYOUT}, two classes or more")
    if unknown := sorted(set(names["test"]) - set(classes)):
        raise DataError(f"{folder} has test images of classes without training images ({', '.join(unknown)}): add some")
    images, labels = {}, {}
    first = folder / ("train" if split else "") / names["train"][classes[0]][0]
    for part in ("train", "test"):
        files = [file for label in classes for file in names[part].get(label, [])]
        reader = FileReader(folder / (part if split else ""), files)
        images[part] = LazyImages(reader, np.arange(len(files)), _shape(first))
        labels[part] = np.repeat(np.arange(len(classes)), [len(names[part].get(label, [])) for label in classes])
    return Dataset(
        name=folder.resolve().name,
        train_images=images["train"],
        train_labels=labels["train"],
        test_images=images["test"],
        test_labels=labels["test"],
        class_names=tuple(classes),
        train_group=None,
        license_note="Yours.",
        pad_crop_flip=False,
    )


def _files(folder: Path) -> dict[str, list[str]]:
    """Image files of each class, relative to the folder, sorted; classes without images are left out."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.name.startswith("."):
            images = sorted(
                str(file.relative_to(folder))
                for file in path.rglob("*")
                if file.suffix.lower() in ENDINGS and not file.name.startswith(".")
            )
            if images:
                found[path.name] = images
    return found


def _held_out(files: dict[str, list[str]]) -> dict[str, dict[str, list[str]]]:
    """Training and test files of each class."""
    parts: dict[str, dict[str, list[str]]] = {"train": {}, "test": {}}
    for number, (label, names) in enumerate(files.items()):
        if len(names) < 2:
            raise DataError(f"class {label!r} has a single image ({names[0]}), none to test it with: add more")
        order = seeded_permutation(len(names), 0, number)
        count = max(1, len(names) // HELD_OUT)
        for part, chosen in (("test", order[:count]), ("train", order[count:])):
            parts[part][label] = [names[index] for index in sorted(chosen.tolist())]
    return parts


def _shape(path: Path) -> Shape:
    """Height, width and channels of an image file."""
    try:
        with Image.open(path) as image:
            return (image.height, image.width, 1 if image.mode in ("1", "L") else 3)
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise DataError(f"image file {path} cannot be read ({error}): check that it is complete") from error
