"""The model file: what is written is read; truncated, foreign, newer and damaged files are refused with a reason."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from everbit import engine
from everbit.compile.image import program_image
from everbit.compile.program import Program
from everbit.errors import FormatError, OutputError
from everbit.formats.model_file import VERSION, load_program, program_bytes, program_from_bytes, save_program
from everbit.learner.learner import Learner
from reference.known_classes import with_known_classes
from reference.random_program import SINGLE_LAYERS, random_program, single_layer_program

PROGRAM = random_program(np.random.default_rng(0), q_f=8, latent_bits=1, channels=3, height=6, width=5, downsample=True)
CONTENT = program_bytes(PROGRAM)

Arrays = dict[str, np.ndarray]
Description = dict[str, Any]


def parts() -> tuple[Description, Arrays]:
    header = json.loads(CONTENT[8 : 8 + int.from_bytes(CONTENT[:8], "little")])
    description = json.loads(header["__metadata__"]["everbit"])
    del description["sha256"]
    return description, load(CONTENT)


def whole(description: Description, arrays: Arrays, signed: bool = True) -> bytes:
    """A model file of these parts, with the digest that goes with them."""
    if signed:
        digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
        for name in sorted(arrays):
            digest.update(
                f"\n{name} {arrays[name].dtype.name} {arrays[name].shape}\n".encode() + arrays[name].tobytes()
            )
        description = description | {"sha256": digest.hexdigest()}
    return save(arrays, {"everbit": json.dumps(description)})


def refused(content: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message) as error:
        program_from_bytes(content, "some.everbit")
    assert "some.everbit" in str(error.value)


def assert_same(found: Program, expected: Program) -> None:
    assert program_image(found) == program_image(expected)
    assert found.tensors == expected.tensors
    assert found.metadata == expected.metadata
    assert [layer.name for layer in found.layers] == [layer.name for layer in expected.layers]


@pytest.mark.parametrize("kind", SINGLE_LAYERS)
def test_what_is_written_is_read(kind: str) -> None:
    program = single_layer_program(kind, np.random.default_rng(3))
    assert_same(program_from_bytes(program_bytes(program), "x"), program)


def test_the_same_program_gives_the_same_bytes(tmp_path: Path) -> None:
    again = program_from_bytes(CONTENT, "x")
    assert {program_bytes(PROGRAM) for _ in range(5)} | {program_bytes(again)} == {CONTENT}
    save_program(PROGRAM, tmp_path / "folder" / "a.everbit")
    assert (tmp_path / "folder" / "a.everbit").read_bytes() == CONTENT
    assert_same(load_program(str(tmp_path / "folder" / "a.everbit")), PROGRAM)
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["a.everbit"]


def test_unchanged_parts_are_read() -> None:
    """What the tests below change is all that is wrong with their files."""
    assert_same(program_from_bytes(whole(*parts()), "x"), PROGRAM)


@pytest.mark.parametrize("name", ["missing.everbit", ".", "missing/a.everbit", "nul\0.everbit"])
def test_a_missing_file(name: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"cannot read the model file.*give the path"):
        Learner.open(tmp_path / name)


def test_an_unwritable_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    for target in (tmp_path / "file" / "a.everbit", tmp_path):
        with pytest.raises(OutputError, match=r"cannot write .*choose another path"):
            save_program(PROGRAM, target)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.everbit"
    save_program(PROGRAM, path)
    with pytest.raises(TypeError):
        save_program(Program(PROGRAM.tensors, PROGRAM.layers, PROGRAM.head, {"not": object()}), path)
    assert path.read_bytes() == CONTENT
    assert list(tmp_path.iterdir()) == [path]


def test_every_truncation() -> None:
    for length in [*range(0, len(CONTENT), 97), len(CONTENT) - 1]:
        refused(CONTENT[:length], "damaged or no model file.*copy or compile it again")


@pytest.mark.parametrize(
    "content", [b"PK\3\4" * 50, b"\x89PNG" * 40, b"\xff" * 64, b"{}", b"\0" * 100, program_image(PROGRAM)]
)
def test_foreign_files(content: bytes) -> None:
    refused(content, "damaged or no model file")


def test_other_safetensors_files() -> None:
    refused(save({"weight": np.zeros(3, np.float32)}), "safetensors file, but no everbit model.*everbit compile")
    refused(save({}, {"format": "pt"}), "no everbit model")


def test_flipped_bits() -> None:
    """Every flip is refused, or changes nothing that means anything."""
    rng = np.random.default_rng(0)
    content = bytearray(CONTENT)
    for _ in range(400):
        at, bit = int(rng.integers(len(content))), 1 << int(rng.integers(8))
        content[at] ^= bit
        try:
            found = program_from_bytes(bytes(content), "x")
        except FormatError:
            pass
        else:
            assert_same(found, PROGRAM)
        content[at] ^= bit


def test_a_flip_in_every_array() -> None:
    description, arrays = parts()
    sha256 = json.loads(json.loads(CONTENT[8 : 8 + int.from_bytes(CONTENT[:8], "little")])["__metadata__"]["everbit"])[
        "sha256"
    ]
    for name in arrays:
        changed = {key: array.copy() for key, array in arrays.items()}
        changed[name].view(np.uint8).reshape(-1)[-1] ^= 1
        refused(whole(description | {"sha256": sha256}, changed, signed=False), "checksum does not fit")


def changed(**values: Any) -> Callable[[Description], Description]:
    return lambda description: description | values


def in_place(change: Callable[[Description], object]) -> Callable[[Description], Description]:
    def apply(description: Description) -> Description:
        change(description)
        return description

    return apply


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            changed(version=VERSION + 1),
            f"format version {VERSION + 1}, this everbit reads up to {VERSION}: update everbit",
        ),
        (changed(version=10**30), "update everbit"),
        (changed(version=0), "damaged"),
        (changed(version="one"), "damaged"),
        (changed(tensors=[]), "damaged"),
        (changed(tensors=None), "damaged"),
        (changed(layers=[]), "damaged"),
        (changed(layers={}), "damaged"),
        (changed(head={}), "damaged"),
        (changed(metadata=3), "damaged"),
        (in_place(lambda d: d["tensors"][0].pop()), "damaged"),
        (in_place(lambda d: d["tensors"][0].append(1)), "damaged"),
        (in_place(lambda d: d["tensors"].pop()), "does not exist"),
        (in_place(lambda d: d["tensors"][0].__setitem__(0, 2**40)), "damaged"),
        (in_place(lambda d: d["tensors"][0].__setitem__(0, float("inf"))), "damaged"),
        (in_place(lambda d: d["tensors"][0].__setitem__(5, float("nan"))), "scale is not a positive number"),
        (in_place(lambda d: d["tensors"][0].__setitem__(5, float("inf"))), "scale is not a positive number"),
        (in_place(lambda d: d["tensors"][0].__setitem__(5, -1.0)), "scale is not a positive number"),
        (in_place(lambda d: d["tensors"][0].__setitem__(5, 0)), "scale is not a positive number"),
        (in_place(lambda d: d["layers"][1].update(kind="quantum")), "quantum"),
        (in_place(lambda d: d["layers"][1].update(inputs=[0, 0, 0])), "inputs or parameters that no"),
        (in_place(lambda d: d["layers"][1].update(inputs=[])), "inputs or parameters that no"),
        (in_place(lambda d: d["layers"][1].update(inputs=[-1])), "no earlier layer"),
        (in_place(lambda d: d["layers"][1].update(inputs=[10**20])), "damaged"),
        (in_place(lambda d: d["layers"][1].update(attributes={})), "damaged"),
        (in_place(lambda d: d["layers"][1]["attributes"].update(stride=10**10)), "damaged"),
        (in_place(lambda d: d["layers"][1].update(range_exponents={"weight": 0})), "damaged"),
        (in_place(lambda d: d["layers"][1].update(range_exponents={"magic": 0})), "inputs or parameters that no"),
        (in_place(lambda d: d["layers"][1]["attributes"].update(quantum=1)), "attributes that no .* has: quantum"),
        (in_place(lambda d: d["head"].update(quantum=1)), "fields that no head has: quantum"),
        (in_place(lambda d: d["head"].update(logit=[1, 2, 3])), "damaged"),
        (in_place(lambda d: d["head"].update(logit=[1, 0])), "impossible scale"),
        (in_place(lambda d: d["head"].update(feature=["a", 0])), "damaged"),
    ],
)
def test_descriptions_that_mean_nothing(change: Callable[[Description], Description], message: str) -> None:
    """Files with a sound checksum, as only a program can write them."""
    description, arrays = parts()
    refused(whole(change(description), arrays), message)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", "null", "[" * 100_000, '{"version": 1}', '{"version": 1, "sha256": 0}']
)
def test_descriptions_that_are_no_json(text: str) -> None:
    refused(save(parts()[1], {"everbit": text}), "damaged")


def test_arrays_of_another_dtype_or_size() -> None:
    description, arrays = parts()
    for name, array in arrays.items():
        for other in (np.float32, np.float64, np.int64, np.uint16):
            refused(whole(description, arrays | {name: array.astype(other)}), f"{name} is {np.dtype(other)}")
        refused(whole(description, arrays | {name: array.reshape(-1)[:-1]}), "damaged")
        refused(whole(description, {key: value for key, value in arrays.items() if key != name}), "damaged")


def test_arrays_that_nothing_reads() -> None:
    description, arrays = parts()
    for name in ("layers.1.quantum", "layers.99.weight", "head.weights", "quantum"):
        refused(whole(description, arrays | {name: np.zeros(3, np.int32)}), f"nothing reads its tensors {name}")


def test_arrays_that_are_not_finite() -> None:
    description, arrays = parts()
    for name, array in arrays.items():
        refused(whole(description, arrays | {name: np.full(array.shape, np.nan, np.float32)}), "is float32")


def test_the_engine_refuses_what_the_format_cannot_see() -> None:
    description, arrays = parts()
    name = next(name for name in arrays if name.endswith(".multiplier_mantissa"))
    refused(whole(description, arrays | {name: np.ones_like(arrays[name])}), "impossible multiplier")
    with pytest.raises(ValueError, match="truncated"):
        engine.check_program(b"")


KNOWN = with_known_classes(PROGRAM, np.random.default_rng(1), ("a", 7, ("b", None)))


def known_parts() -> tuple[Description, Arrays]:
    content = program_bytes(KNOWN)
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    description = json.loads(header["__metadata__"]["everbit"])
    del description["sha256"]
    return description, load(content)


def test_known_classes_are_written_and_read() -> None:
    found = program_from_bytes(program_bytes(KNOWN), "x")
    assert_same(found, KNOWN)
    assert found.head.labels == ("a", 7, ("b", None))
    assert program_from_bytes(CONTENT, "x").head.labels == ()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", 7], "do not have one row for each of 2 classes"),
        (["a", 7, "b", "c"], "do not have one row for each of 4 classes"),
        (["a", 7, 7], "two classes of its head have the same label"),
        (["a", 7, ["b"]], "damaged"),
        (["a", 7, {"set": []}], "damaged"),
        ([], "do not have one row for each of 0 classes"),
        (5, "damaged"),
    ],
)
def test_labels_that_do_not_fit_their_rows(labels: object, message: str) -> None:
    description, arrays = known_parts()
    description["head"]["labels"] = labels
    refused(whole(description, arrays), message)


def test_rows_of_another_form() -> None:
    description, arrays = known_parts()
    for name in ("head.weights", "head.bias", "head.past"):
        refused(whole(description, arrays | {name: arrays[name].astype(np.int64)}), f"{name} is int64, not int32")
        refused(whole(description, arrays | {name: arrays[name][:-1]}), "do not have one row for each")
        refused(whole(description, {key: array for key, array in arrays.items() if key != name}), "damaged")
    narrow = np.ascontiguousarray(arrays["head.weights"][:, :-1])
    refused(whole(description, arrays | {"head.weights": narrow}), "one row for each")
    refused(whole(description, arrays | {"head.past": arrays["head.past"] * 0}), "stands for no pattern")
