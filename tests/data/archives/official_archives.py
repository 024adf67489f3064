"""Archives laid out as the official ones, with a few drawn images each, and what everbit must read of them."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from data.core50_layout import released_lists

Expected = dict[str, Any]


def images(count: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), np.uint8)


def tar_gz(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def encoded(pixels: np.ndarray, kind: str) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind)
    return out.getvalue()


def records(pixels: np.ndarray, *labels: np.ndarray) -> bytes:
    rows = [np.stack(labels, axis=1).astype(np.uint8), pixels.transpose(0, 3, 1, 2).reshape(len(pixels), -1)]
    return np.concatenate(rows, axis=1).tobytes()


def cifar10() -> tuple[dict[str, bytes], Expected]:
    train, test, labels = images(10, 32, 32, 3), images(10, 32, 32, 3, seed=1), np.arange(10)[::-1]
    names = list("abcdefghij")
    files = {f"data_batch_{n + 1}.bin": records(train[2 * n : 2 * n + 2], labels[2 * n : 2 * n + 2]) for n in range(5)}
    files |= {"test_batch.bin": records(test, labels), "batches.meta.txt": ("\n".join(names) + "\n\n").encode()}
    content = {"cifar-10-binary.tar.gz": tar_gz({f"cifar-10-batches-bin/{name}": data for name, data in files.items()})}
    return content, {"train": train, "test": test, "train_labels": labels, "test_labels": labels, "names": names}


def cifar100() -> tuple[dict[str, bytes], Expected]:
    train, test, labels = images(100, 32, 32, 3), images(100, 32, 32, 3, seed=1), np.arange(100)[::-1]
    names = [f"name{label}" for label in range(100)]
    files = {
        "train.bin": records(train, labels // 5, labels),
        "test.bin": records(test, labels // 5, labels),
        "fine_label_names.txt": "\n".join(names).encode(),
        "coarse_label_names.txt": b"a\nb\n",
    }
    content = {"cifar-100-binary.tar.gz": tar_gz({f"cifar-100-binary/{name}": data for name, data in files.items()})}
    return content, {"train": train, "test": test, "train_labels": labels, "test_labels": labels, "names": names}


def idx(array: np.ndarray) -> bytes:
    return gzip.compress(struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes())


def mnist() -> tuple[dict[str, bytes], Expected]:
    train, test, labels = images(10, 28, 28), images(10, 28, 28, seed=1), np.arange(10, dtype=np.uint8)[::-1]
    content = {
        "train-images-idx3-ubyte.gz": idx(train),
        "train-labels-idx1-ubyte.gz": idx(labels),
        "t10k-images-idx3-ubyte.gz": idx(test),
        "t10k-labels-idx1-ubyte.gz": idx(labels),
    }
    expected = {"train": train[..., None], "test": test[..., None], "train_labels": labels, "test_labels": labels}
    return content, expected | {"names": list("0123456789")}


def fashion_mnist() -> tuple[dict[str, bytes], Expected]:
    content, expected = mnist()
    names = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag"]
    return content, expected | {"names": [*names, "Ankle boot"]}


def gtsrb() -> tuple[dict[str, bytes], Expected]:
    pictures = images(43 * 2 * 4, 32, 32, 3).reshape(43, 2, 4, 32, 32, 3)
    folder = "GTSRB/Final_Training/Images"
    training = {f"{folder}/00000/GT-00000.csv": b"Filename;Width\n"}
    for label, track, frame in np.ndindex(43, 2, 4):
        name = f"{folder}/{label:05}/{track:05}_{frame:05}.ppm"
        training[name] = encoded(pictures[label, track, frame], "PPM")
    test, labels = images(43, 32, 32, 3, seed=1), np.arange(43)[::-1]
    rows = [f"{number:05}.ppm;32;32;1;1;30;30;{label}" for number, label in enumerate(labels)]
    table = "\r\n".join(["Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId", *rows])
    content = {
        "GTSRB_Final_Training_Images.zip": zipped(dict(reversed(training.items()))),
        "GTSRB_Final_Test_Images.zip": zipped(
            {f"GTSRB/Final_Test/Images/{number:05}.ppm": encoded(pixels, "PPM") for number, pixels in enumerate(test)}
        ),
        "GTSRB_Final_Test_GT.zip": zipped({"GT-final_test.csv": table.encode()}),
    }
    return content, {
        "train": pictures[:, :, ::3].reshape(-1, 32, 32, 3),
        "train_labels": np.repeat(np.arange(43), 4),
        "test": test,
        "test_labels": labels,
        "names": list(map(str, range(43))),
        "group": np.repeat(np.arange(86), 2),
    }


def coil() -> tuple[dict[str, bytes], Expected]:
    pixels = np.zeros((50, 72, 128, 128, 3), np.uint8)
    pixels[..., 0], pixels[..., 1] = np.arange(50)[:, None, None, None], np.arange(72)[:, None, None]
    files = {"coil-100/obj1__0.png": b"another object"}
    for number, angle in np.ndindex(50, 72):
        files[f"coil-100/obj{number + 51}__{5 * angle}.png"] = encoded(pixels[number, angle, :2, :2], "PNG")
    held_out = np.isin(np.arange(72) * 5 // 40, [2, 5, 8])
    return {"coil-100.zip": zipped(files)}, {
        "train": pixels[:, ~held_out].reshape(-1, 128, 128, 3),
        "train_labels": np.repeat(np.arange(50), 48),
        "test": pixels[:, held_out].reshape(-1, 128, 128, 3),
        "test_labels": np.repeat(np.arange(50), 24),
        "names": [f"obj{number}" for number in range(51, 101)],
        "group": np.tile((np.arange(72) * 5 // 40)[~held_out], 50),
    }


def tiny_imagenet() -> tuple[dict[str, bytes], Expected]:
    wordnet = [f"n{number:08}" for number in range(200)]
    files = {
        "wnids.txt": "\n".join(wordnet[::-1]).encode(),
        "words.txt": "\n".join(f"{label}\tword {label}, other" for label in [*wordnet, "n99999999"]).encode(),
    }
    flat = np.repeat(np.arange(200, dtype=np.uint8), 2)[:, None, None, None] * np.ones((64, 64, 3), np.uint8)
    for label, index in np.ndindex(200, 2):
        name = f"train/{wordnet[label]}/images/{wordnet[label]}_{index}.JPEG"
        files[name] = encoded(flat[2 * label + index], "JPEG")
    order = np.arange(200)[::-1]
    rows = [f"val_{place}.JPEG\t{wordnet[label]}\t0\t0\t63\t63" for place, label in enumerate(order)]
    files["val/val_annotations.txt"] = "\n".join(rows).encode()
    files |= {f"val/images/val_{p}.JPEG": encoded(flat[2 * label], "JPEG") for p, label in enumerate(order)}
    content = {"tiny-imagenet-200.zip": zipped({f"tiny-imagenet-200/{name}": data for name, data in files.items()})}
    return content, {
        "train": flat[:, ::2, ::2],
        "train_labels": np.repeat(np.arange(200), 2),
        "test": flat[::2][order][:, ::2, ::2],
        "test_labels": order,
        "names": [f"word {label}" for label in wordnet],
    }


def core50() -> tuple[dict[str, bytes], Expected]:
    sessions, objects = (axis.ravel() for axis in np.meshgrid(np.arange(1, 12), np.arange(1, 51), indexing="ij"))
    paths = [f"s{s}/o{o}/C_{s:02}_{o:02}_000.png" for s, o in zip(sessions, objects, strict=True)]
    pixels = np.zeros((len(paths), 128, 128, 3), np.uint8)
    pixels[..., 0], pixels[..., 1] = objects[:, None, None], sessions[:, None, None]
    frames = {f"core50_128x128/{path}": encoded(frame, "PNG") for path, frame in zip(paths, pixels, strict=True)}
    lookup, labels = released_lists(objects - 1, sessions)
    content = {"core50_128x128.zip": zipped(frames | {"../escape.png": b"x", "core50_128x128/../b.png": b"x"})}
    content |= {"paths.pkl": pickle.dumps(paths, 2), "LUP.pkl": pickle.dumps(lookup, 2)}
    held_out = np.isin(sessions, [3, 7, 10])
    return content | {"labels.pkl": pickle.dumps(labels, 2)}, {
        "train": pixels[~held_out],
        "train_labels": objects[~held_out] - 1,
        "test": pixels[held_out],
        "test_labels": objects[held_out] - 1,
        "names": None,
        "group": sessions[~held_out],
    }


OFFICIAL: dict[str, Callable[[], tuple[dict[str, bytes], Expected]]] = {
    "cifar10": cifar10,
    "cifar100": cifar100,
    "gtsrb": gtsrb,
    "coil": coil,
    "core50": core50,
    "fashion_mnist": fashion_mnist,
    "mnist": mnist,
    "tiny_imagenet": tiny_imagenet,
}
