"""Hostile files of other frameworks: each is refused with an error of everbit's, at no great cost."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from flatbuffers import flexbuffers
from numpy.lib import format as npy

from attacks.foreign_files import finn_file, lite_file, outcome, sound_files, states
from everbit.errors import FormatError, UnsupportedError
from everbit.formats.importers import load_network
from everbit.formats.importers.hdf5 import read_weights
from formats.importers.lite_model import NONE, SAME, LiteModel
from formats.importers.quicknet_weights import quicknet_layers, write_keras

TESTS = Path(__file__).resolve().parent.parent
TRIALS = {".tflite": 400, ".h5": 20}
"""Mutations of a file where not 150: the first kind is quick, and each of the second takes a process of its own."""

ENDINGS = (".tflite", ".h5", ".pth", ".pth.tar", ".safetensors", ".npz")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return sound_files(tmp_path_factory.mktemp("sound"))


@pytest.mark.parametrize("ending", ENDINGS)
def test_sound_files_are_imported_whatever_their_name(files: dict[str, bytes], ending: str, tmp_path: Path) -> None:
    assert outcome(files[ending], tmp_path / "network") == "imported"


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_cut_short_is_refused(files: dict[str, bytes], ending: str, tmp_path: Path) -> None:
    content = files[ending]
    for length in [0, 1, 7, 8, 9, 100, *np.linspace(101, len(content) * 0.98, 6).astype(int)]:
        assert outcome(content[:length], tmp_path / "network") in ("FormatError", "UnsupportedError"), length


@pytest.mark.parametrize("ending", ENDINGS)
def test_mutated_files_are_refused_or_imported(ending: str) -> None:
    """In a process of its own: a crash of a reader must not pass for a refusal."""
    count = TRIALS.get(ending, 150)
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(TESTS / "attacks" / "mutate_foreign_files.py"), ending, "0", str(count)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    imported, refused = map(int, done.stdout.split())
    assert imported + refused == count
    assert refused > count // 4


def refused(content: bytes, folder: Path, message: str, kind: type[Exception] = FormatError) -> None:
    path = folder / "hostile"
    path.write_bytes(content)
    with pytest.raises(kind, match=message):
        load_network(path)


def network(*shape: int) -> LiteModel:
    """A convolution on images of a shape, and a dense layer."""
    model = LiteModel()
    x = model.input(1, *shape)
    weights = [model.constant(np.ones((2, 3, 3, shape[2]))), model.constant(np.ones(2))]
    window = {"Padding": SAME, "StrideH": 1, "StrideW": 1, "FusedActivationFunction": NONE}
    x = model.add("CONV_2D", [x, *weights], (1, *shape[:2], 2), **window)
    model.add("MEAN", [x, model.constant([1, 2], "int32")], (1, 2))
    return model


def test_huge_and_impossible_shapes(tmp_path: Path) -> None:
    cases: list[tuple[Callable[[LiteModel], object], str]] = [
        (lambda m: m.tensors[0].update(shape=[1, 2**20, 2**20, 3]), "holds 3298534883328 values"),
        (lambda m: m.tensors[0].update(shape=[1, 2**31 - 1, 2**31 - 1, 2**31 - 1]), "values, at most"),
        (lambda m: m.tensors[0].update(shape=[1, 8192, 1024, 3]), "takes images of 8192x1024x3"),
        (lambda m: m.tensors[0].update(shape=[1, -8, 8, 3]), r"has the shape \[1, -8, 8, 3\]"),
        (lambda m: m.tensors[0].update(shape=[1, 0, 8, 3]), "takes images of 0x8x3"),
        (lambda m: m.tensors[0].update(shape=[1] * 9), "has the shape"),
        (lambda m: m.tensors[1].update(shape=[2, 3, 3, 4]), "has 216 bytes of data"),
        (lambda m: m.tensors[1].update(shape=[0, 3, 3, 3]), "has 216 bytes of data"),
        (lambda m: m.operators[0]["options"].update(StrideH=2**30, StrideW=2**30), "of stride"),
        (lambda m: m.tensors[3].update(shape=[1, 8, 8, 3]), "makes"),
    ]
    for change, message in cases:
        model = network(8, 8, 3)
        change(model)
        refused(model.bytes(), tmp_path, message)


def test_indices_that_lead_astray(tmp_path: Path) -> None:
    def own_output(m: LiteModel) -> None:
        m.operators[0]["inputs"][0] = m.operators[0]["outputs"][0]

    cases: list[tuple[Callable[[LiteModel], object], str]] = [
        (own_output, "which no operator before it makes"),
        (lambda m: m.operators[0]["inputs"].__setitem__(0, 999), "reads number 999 of 6 there are"),
        (lambda m: m.operators[0]["inputs"].__setitem__(0, -7), "reads number -7"),
        (lambda m: m.operators[0]["outputs"].__setitem__(0, -1), "reads number -1"),
        (lambda m: m.operators[0].update(outputs=[]), "has 0 outputs"),
        (lambda m: m.operators[0].update(inputs=[]), "has no input 0"),
        (lambda m: m.tensors[1].update(buffer=77), "reads number 77 of 7 there are"),
        (lambda m: m.tensors[1].update(buffer=0), "must be a constant"),
        (lambda m: m.inputs.__setitem__(0, 55), "reads number 55"),
        (lambda m: m.inputs.append(3), "has 2 inputs and 1 outputs"),
    ]
    for change, message in cases:
        model = network(8, 8, 3)
        change(model)
        kind = UnsupportedError if "must be a constant" in message or "2 inputs" in message else FormatError
        refused(model.bytes(), tmp_path, message, kind)


def test_numbers_that_are_none(tmp_path: Path) -> None:
    for value in (np.nan, np.inf, -np.inf):
        model = network(8, 8, 3)
        weights = np.ones((2, 3, 3, 3), np.float32)
        weights[1, 2, 0, 1] = value
        model.tensors[1]["data"] = weights.tobytes()
        refused(model.bytes(), tmp_path, r"tensor 1 \(tensor_1\) holds values that are not finite")
    for scale in (0.0, -1.0, np.nan, np.inf):
        model = network(8, 8, 3)
        model.tensors[1] |= {"dtype": "int8", "data": bytes(54), "scale": scale}
        refused(model.bytes(), tmp_path, "has a scale that is no positive number")
    for count in (3, 7):
        model = network(8, 8, 3)
        model.tensors[1] |= {"dtype": "int8", "data": bytes(54), "scale": np.ones(count)}
        refused(model.bytes(), tmp_path, f"has {count} scales, which fit none of its axes")


def test_options_that_are_none(tmp_path: Path) -> None:
    def deep(depth: int) -> bytes:
        """Vectors of one vector each."""
        build = flexbuffers.Builder()
        starts = [build._StartVector() for _ in range(depth)]
        for start in reversed(starts):
            build._EndVector(start, False, False)
        return bytes(build.Finish())

    def options(raw: bytes) -> bytes:
        model = LiteModel()
        packed = model.quantize(model.input(1, 4, 4, 3))
        weights = [
            model.constant(np.zeros((3, 1, 1, 1)), "int32"),
            model.constant(np.ones(3)),
            model.constant(np.ones(3)),
        ]
        y = model.add("LceBconv2d", [packed, *weights, -1], (1, 4, 4, 3))
        model.operators[1]["raw_options"] = raw
        model.add("MEAN", [y, model.constant([1, 2], "int32")], (1, 3))
        return model.bytes()

    nested: object = 1
    for _ in range(200):
        nested = [nested]
    sound = {"channels_in": 3, "padding": 0, "stride_height": 1, "stride_width": 1, "pad_values": 1}
    refused(options(deep(20_000)), tmp_path, "is damaged")
    refused(options(b"\xff" * 40), tmp_path, "is damaged")
    refused(options(b"\x00"), tmp_path, "is damaged")
    refused(options(flexbuffers.Dumps({"padding": 0})), tmp_path, "lacks its option channels_in")
    refused(options(flexbuffers.Dumps(sound | {"padding": "SAME"})), tmp_path, "padding|is damaged")
    refused(options(flexbuffers.Dumps(sound | {"channels_in": nested})), tmp_path, "reads 3 channels|is damaged")
    assert outcome(options(flexbuffers.Dumps(sound)), tmp_path / "network") == "imported"


class _Touch:
    """Unpickled, makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    for old in (False, True):
        torch.save({"state_dict": _Touch(trace)}, tmp_path / "evil", _use_new_zipfile_serialization=not old)
        refused((tmp_path / "evil").read_bytes(), tmp_path, "holds objects beside tensors, which are never loaded")
    refused(pickle.dumps(_Touch(trace)), tmp_path, "are never loaded|is damaged")
    buffer = io.BytesIO()
    np.savez(buffer, W0_bits=np.array([_Touch(trace)], object))
    refused(buffer.getvalue(), tmp_path, "holds objects")
    assert not trace.exists()


def test_archives_that_grow(tmp_path: Path) -> None:
    """Compressed zeros, a header that claims more than there is, tensors that repeat one number."""
    with zipfile.ZipFile(io.BytesIO(finn_file())) as sound:
        entries = {name: sound.read(name) for name in sound.namelist()}

    def archive(**changed: bytes) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
            for name, content in (entries | {f"{key}.npy": value for key, value in changed.items()}).items():
                made.writestr(name, content)
        return buffer.getvalue()

    def array(shape: tuple[int, ...], data: bytes) -> bytes:
        buffer = io.BytesIO()
        npy.write_array_header_1_0(buffer, {"descr": "|u1", "fortran_order": False, "shape": shape})
        return buffer.getvalue() + data

    assert outcome(archive(), tmp_path / "network") == "imported"
    refused(archive(W0_bits=array((2**20, 2**20), b"")), tmp_path, "W0_bits of shape .* does not hold what it says")
    bomb = archive(W0_bits=array((2**28 + 1,), bytes(2**28 + 1)))
    assert len(bomb) < 2**20
    refused(bomb, tmp_path, "does not hold what it says")
    huge = states() | {"model.0.0.weight": torch.zeros(1).expand(2**20, 2**20, 3, 3)}
    buffer = io.BytesIO()
    torch.save(huge, buffer)
    refused(buffer.getvalue(), tmp_path, "is no plain tensor of its own values")


def test_data_sets_that_claim_too_much(tmp_path: Path) -> None:
    """A chunked HDF5 data set may have any shape and no bytes."""
    path = write_keras(quicknet_layers("quicknet_small", divide=32), tmp_path / "weights.h5")
    with h5py.File(path, "r+") as file:
        member = file["quant_dense/quant_dense"]
        del member["kernel:0"]
        member.create_dataset("kernel:0", (2**40, 7), np.float32, chunks=(64, 7))
    refused(path.read_bytes(), tmp_path, r"kernel of shape \[1099511627776, 7\] is larger than any QuickNet")


def test_a_file_that_hdf5_never_ends_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A heap's object of a size that leads back to itself: the library goes in circles until it is stopped."""
    content = bytearray(write_keras(quicknet_layers("quicknet_small", divide=32), tmp_path / "w.h5").read_bytes())
    heap = content.index(b"GCOL")
    content[heap + 24 : heap + 32] = (2**64 - 16).to_bytes(8, "little")
    source = Path(read_weights.__file__).read_text()
    quick = tmp_path / "read_weights.py"
    quick.write_text(source.replace("MOST_SECONDS, MOST_MEMORY = 30", "MOST_SECONDS, MOST_MEMORY = 2"))
    monkeypatch.setattr(read_weights, "__file__", str(quick))
    refused(bytes(content), tmp_path, "HDF5's library comes to no end with it")


def test_lite_files_with_many_parts_end_soon(tmp_path: Path) -> None:
    content = lite_file()
    start = content.index(b"TFL3")
    assert start == 4
    model = network(8, 8, 3)
    model.tensors += [dict(model.tensors[0], name="") for _ in range(20_001)]
    refused(model.bytes(), tmp_path, "20007 tensors or operators|is damaged")
