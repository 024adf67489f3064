"""The strip format of a small image set: one NumPy archive (.npz) that holds images as encoded strips.

A strip is one encoded image file (JPEG, PNG or WebP) of width W and height n*H: n images of one split, stacked top to
bottom. The archive holds ``strips`` (uint8, the encoded bytes of all strips joined), ``offsets`` (int64, one more than
the strips), ``counts`` (int32, images in each strip), ``splits`` (the split of each strip) and the labels of each split
as ``SPLIT_labels``, or ``labels`` where there is one split only. Nothing in it is pickled.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from everbit.errors import DataError


def _decode(encoded: bytes, count: int) -> np.ndarray:
    """Decode one strip to uint8 [count, H, W, 3]."""
    pixels = np.asarray(Image.open(io.BytesIO(encoded)).convert("RGB"))
    return pixels.reshape(count, pixels.shape[0] // count, pixels.shape[1], 3)


def read_strips(path: str | Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Read an archive of strips: split name -> (images uint8 [N, H, W, 3], labels int64 [N]).

    Raises DataError where the file is missing, is no such archive, or its labels do not match its images.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path} does not exist: give the folder that holds the data set's .npz file")
    try:
        with np.load(path, allow_pickle=False) as archive:
            joined, offsets, counts = archive["strips"].tobytes(), archive["offsets"], archive["counts"]
            splits = [str(name) for name in archive["splits"]]
            parts: dict[str, list[np.ndarray]] = {name: [] for name in dict.fromkeys(splits)}
            for index, name in enumerate(splits):
                parts[name].append(_decode(joined[offsets[index] : offsets[index + 1]], int(counts[index])))
            labels = {name: archive[f"{name}_labels" if f"{name}_labels" in archive else "labels"] for name in parts}
    except (OSError, KeyError, ValueError, IndexError, zipfile.BadZipFile, UnidentifiedImageError) as error:
        raise DataError(f"{path} is damaged or is no archive of image strips ({error}): copy it again") from error
    data = {name: (np.concatenate(parts[name]), labels[name].astype(np.int64)) for name in parts}
    for name, (images, split_labels) in data.items():
        if len(images) != len(split_labels):
            raise DataError(f"{path}: split {name!r} has {len(images)} images but {len(split_labels)} labels")
    return data
