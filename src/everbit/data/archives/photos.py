"""GTSRB, COIL and Tiny ImageNet from their zip files of pictures."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from everbit.data.archives.arrays import Arrays

SIDE = 32
"""Pixels of a side of GTSRB's and Tiny ImageNet's images."""
FRAMES_APART = 3
"""Of GTSRB's tracks, one frame of so many is taken: neighbors are nearly the same picture."""
COIL_OBJECTS = range(51, 101)
COIL_ANGLES = range(0, 360, 5)
DEGREES_OF_SESSION = 40


def gtsrb(files: Mapping[str, Path]) -> Arrays:
    """The arrays of GTSRB, 43 classes; training images with their track and frame."""
    with zipfile.ZipFile(files["GTSRB_Final_Training_Images.zip"]) as archive:
        frame = re.compile(r"GTSRB/Final_Training/Images/(\d{5})/(\d{5})_(\d{5})\.ppm")
        found = [match for match in map(frame.fullmatch, sorted(archive.namelist())) if match is not None]
        numbers = np.array([[int(part) for part in match.groups()] for match in found])
        taken = np.flatnonzero(numbers[:, 2] % FRAMES_APART == 0)
        train = _pictures(archive, (found[index][0] for index in taken), SIDE)
    with zipfile.ZipFile(files["GTSRB_Final_Test_GT.zip"]) as archive:
        table = archive.read("GT-final_test.csv").decode("ascii")
    rows = list(csv.DictReader(io.StringIO(table), delimiter=";"))
    with zipfile.ZipFile(files["GTSRB_Final_Test_Images.zip"]) as archive:
        test = _pictures(archive, (f"GTSRB/Final_Test/Images/{row['Filename']}" for row in rows), SIDE)
    return {
        "train_images": train,
        "train_labels": numbers[taken, 0].astype(np.uint8),
        "train_track": numbers[taken, 1].astype(np.uint16),
        "train_frame": numbers[taken, 2].astype(np.uint8),
        "test_images": test,
        "test_labels": np.array([int(row["ClassId"]) for row in rows], np.uint8),
    }


def coil(files: Mapping[str, Path]) -> Arrays:
    """The arrays of COIL's objects 51 to 100, 128x128, with the session of each image."""
    views = [(number, angle) for number in COIL_OBJECTS for angle in COIL_ANGLES]
    with zipfile.ZipFile(files["coil-100.zip"]) as archive:
        images = _pictures(archive, (f"coil-100/obj{number}__{angle}.png" for number, angle in views), 128)
    numbers, angles = np.array(views).T
    return {
        "images": images,
        "labels": (numbers - COIL_OBJECTS[0]).astype(np.uint8),
        "session": (angles // DEGREES_OF_SESSION).astype(np.uint8),
        "label_names": np.array([f"obj{number}" for number in COIL_OBJECTS]),
    }


def tiny_imagenet(files: Mapping[str, Path]) -> Arrays:
    """The arrays of Tiny ImageNet at 32x32, its 200 classes in the order of their WordNet numbers."""
    folder = "tiny-imagenet-200"
    with zipfile.ZipFile(files["tiny-imagenet-200.zip"]) as archive:
        classes = sorted(archive.read(f"{folder}/wnids.txt").decode("ascii").split())
        number_of = {label: number for number, label in enumerate(classes)}
        words = dict(line.split("\t") for line in archive.read(f"{folder}/words.txt").decode("utf-8").splitlines())
        picture = re.compile(rf"{folder}/train/(n\d+)/images/n\d+_(\d+)\.JPEG")
        train = [match for match in map(picture.fullmatch, archive.namelist()) if match is not None]
        train.sort(key=lambda match: (match[1], int(match[2])))
        notes = archive.read(f"{folder}/val/val_annotations.txt").decode("ascii").splitlines()
        held_out = [line.split("\t")[:2] for line in notes]
        return {
            "train_images": _pictures(archive, (match[0] for match in train), SIDE),
            "train_labels": np.array([number_of[match[1]] for match in train], np.uint8),
            "val_images": _pictures(archive, (f"{folder}/val/images/{file}" for file, _ in held_out), SIDE),
            "val_labels": np.array([number_of[label] for _, label in held_out], np.uint8),
            "label_names": np.array([words[label].split(",")[0] for label in classes]),
        }


def _pictures(archive: zipfile.ZipFile, names: Iterable[str], side: int) -> NDArray[np.uint8]:
    """uint8 [N, side, side, 3]."""
    pixels = []
    for name in names:
        with archive.open(name) as file, Image.open(file) as image:
            colored = image.convert("RGB")
            fitted = (
                colored if colored.size == (side, side) else colored.resize((side, side), Image.Resampling.BILINEAR)
            )
            pixels.append(np.asarray(fitted, np.uint8))
    return np.stack(pixels)
