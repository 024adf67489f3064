"""Data sets of one ``.npz`` file each, plain arrays or strips; docs/data.md says how to lay the files out."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from everbit.data.dataset import Dataset
from everbit.data.sources import Source
from everbit.data.strips import read_strips

Split = tuple[NDArray[np.uint8], NDArray[np.int64]]


def read_npz(path: Path, name: str, source: Source) -> Dataset:
    """The data set of a file, its images in memory. Raises ValueError, KeyError and the like for a damaged file."""
    if not zipfile.is_zipfile(path):
        raise ValueError("not an .npz archive, or cut short")
    to_format = _gray_to_32x32x3 if source.packaged else np.asarray
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
