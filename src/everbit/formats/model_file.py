"""The `.everbit` model file: a program in a safetensors file.

The format in a few lines: every constant array of layer i is the tensor `layers.i.NAME`, every parameter
`layers.i.parameters.NAME` (int32 at 32 bits). The metadata entry `everbit` is JSON: `version`, `tensors` (height,
width, channels, bits, zero_point, scale), `layers` (kind, name, inputs, output, attributes, range_exponents of its
parameters), `head`, `metadata`, and `sha256`, the digest of the rest of the JSON and of all tensors. Where the program
knows classes, `head` has their `labels`, and the tensors `head.weights`, `head.bias` and `head.past` are their rows.
Nothing is unpickled, and the engine checks the program before anything runs.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from everbit import engine
from everbit.compile.image import program_image
from everbit.compile.operations import OPERATIONS
from everbit.compile.program import Classifier, Head, Layer, Parameter, Program, Tensor, tensor_bits
from everbit.errors import EverbitError, FormatError
from everbit.formats.labels import label_from_json, label_to_json
from everbit.whole_file import replacing

METADATA_KEY = "everbit"
CLASSIFIER_ARRAYS = ("weights", "bias", "past")
HEAD_FIELDS = {"range_exponent", "logit", "feature", "labels"}
VERSION = 2
"""Grows whenever a file may hold what a reader of the version before does not know. 2: known classes, layers and
attributes of layers beyond those of the first residual networks. Files of every version are read."""


def program_bytes(program: Program) -> bytes:
    """The content of a model file; the same bytes for the same program."""
    layers = [
        {
            "kind": layer.kind,
            "name": layer.name,
            "inputs": list(layer.inputs),
            "output": layer.output,
            "attributes": layer.attributes,
            "range_exponents": {name: p.range_exponent for name, p in layer.parameters.items()},
        }
        for layer in program.layers
    ]
    head = program.head
    head_record: dict[str, Any] = {"range_exponent": head.range_exponent, "logit": head.logit, "feature": head.feature}
    if head.classifier is not None:
        head_record["labels"] = [label_to_json(label) for label in head.labels]
    arrays = _arrays_of(program)
    description: dict[str, Any] = {
        "version": VERSION,
        "tensors": [[t.height, t.width, t.channels, t.bits, t.zero_point, t.scale] for t in program.tensors],
        "layers": layers,
        "head": head_record,
        "metadata": program.metadata,
    }
    description["sha256"] = _digest(description, arrays)
    return save(arrays, {METADATA_KEY: json.dumps(description, sort_keys=True)})


def program_from_bytes(content: bytes, source: str) -> Program:
    """The program of a model file's content, checked by the engine; `source` names it in errors.

    Raises FormatError where the content is truncated, foreign, damaged or newer than this everbit.
    """
    try:
        arrays = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        raise FormatError(f"{source} is damaged or no model file ({error}): copy or compile it again") from error
    metadata = header.get("__metadata__", {})
    if METADATA_KEY not in metadata:
        raise FormatError(f"{source} is a safetensors file, but no everbit model: make one with `everbit compile`")
    return _program_of(source, metadata[METADATA_KEY], arrays)


def save_program(program: Program, path: str | Path) -> None:
    """Writes a model file whole or not at all. Raises OutputError where the path cannot be written."""
    with replacing(Path(path)) as partial:
        partial.write_bytes(program_bytes(program))


def load_program(path: str | Path) -> Program:
    """Reads a model file; errors as `program_from_bytes`, and FormatError where there is no such file."""
    path = Path(path)
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FormatError(f"cannot read the model file {path} ({reason}): give the path of an .everbit file") from error
    return program_from_bytes(content, str(path))


def _arrays_of(program: Program) -> dict[str, np.ndarray]:
    """All tensors of a program's file by their names."""
    arrays: dict[str, np.ndarray] = {}
    for index, layer in enumerate(program.layers):
        for name, array in layer.arrays.items():
            arrays[f"layers.{index}.{name}"] = np.ascontiguousarray(array)
        for name, parameter in layer.parameters.items():
            arrays[f"layers.{index}.parameters.{name}"] = np.ascontiguousarray(parameter.values, np.int32)
    classifier = program.head.classifier
    if classifier is not None:
        arrays |= {f"head.{name}": np.ascontiguousarray(getattr(classifier, name)) for name in CLASSIFIER_ARRAYS}
    return arrays


def _digest(description: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    """SHA-256 of the description and the arrays: a damaged file is refused, not learned on."""
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        digest.update(f"\n{name} {array.dtype.name} {array.shape}\n".encode())
        digest.update(little.tobytes())
    return digest.hexdigest()


def _program_of(path: str, text: str, arrays: dict[str, np.ndarray]) -> Program:
    try:
        description = json.loads(text)
        version = int(description["version"])
        if version > VERSION:
            raise FormatError(
                f"{path} has format version {version}, this everbit reads up to {VERSION}: update everbit"
            )
        if version < 1 or description.pop("sha256") != _digest(description, arrays):
            raise ValueError("its checksum does not fit")
        tensors = tuple(_tensor_of(values) for values in description["tensors"])
        program = Program(
            tensors=tensors,
            layers=tuple(_layer_of(i, record, tensors, arrays) for i, record in enumerate(description["layers"])),
            head=_head_of(description["head"], arrays),
            metadata=dict(description["metadata"]),
        )
        unread = arrays.keys() - _arrays_of(program).keys()
        if unread:
            raise ValueError(f"nothing reads its tensors {', '.join(sorted(unread)[:5])}")
        engine.check_program(program_image(program))
    except (KeyError, TypeError, IndexError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        if isinstance(error, EverbitError):
            raise
        raise FormatError(f"{path} is damaged ({error}): copy or compile it again") from error
    return program


def _tensor_of(values: Any) -> Tensor:
    height, width, channels, bits, zero_point, scale = values
    if not 0 < float(scale) < math.inf:
        raise ValueError("a tensor's scale is not a positive number")
    return Tensor(int(height), int(width), int(channels), int(bits), int(zero_point), float(scale))


def _layer_of(index: int, record: dict[str, Any], tensors: tuple[Tensor, ...], arrays: dict[str, np.ndarray]) -> Layer:
    operation = OPERATIONS[record["kind"]]
    prefix = f"layers.{index}."
    exponents = record["range_exponents"]
    attributes = dict.fromkeys(operation.later, 0) | record["attributes"]
    bits = tensor_bits(tensors, map(int, (*record["inputs"], record["output"])))
    dtypes = operation.dtypes(bits) | dict.fromkeys((f"parameters.{name}" for name in exponents), "int32")
    for name, dtype in dtypes.items():
        if prefix + name in arrays and arrays[prefix + name].dtype != dtype:
            raise ValueError(f"{prefix}{name} is {arrays[prefix + name].dtype}, not {dtype}")
    unknown = set(attributes) - set(operation.attributes)
    if unknown:
        raise ValueError(f"layer {index} has attributes that no {record['kind']} has: {', '.join(sorted(unknown))}")
    if len(record["inputs"]) != operation.inputs or not set(exponents) <= dict(operation.parameters).keys():
        raise ValueError(f"layer {index} has inputs or parameters that no {record['kind']} has")
    return Layer(
        kind=record["kind"],
        name=str(record["name"]),
        inputs=tuple(int(i) for i in record["inputs"]),
        output=int(record["output"]),
        attributes={name: int(attributes[name]) for name in operation.attributes},
        arrays={name: arrays[prefix + name] for name, _ in operation.arrays if prefix + name in arrays},
        parameters={
            name: Parameter(arrays[f"{prefix}parameters.{name}"], int(exponent)) for name, exponent in exponents.items()
        },
    )


def _head_of(record: dict[str, Any], arrays: dict[str, np.ndarray]) -> Head:
    unknown = set(record) - HEAD_FIELDS
    if unknown:
        raise ValueError(f"its head has fields that no head has: {', '.join(sorted(unknown))}")
    classifier = None
    if "labels" in record:
        labels = tuple(label_from_json(label) for label in record["labels"])
        if len(set(labels)) != len(labels):
            raise ValueError("two classes of its head have the same label")
        for name in CLASSIFIER_ARRAYS:
            if arrays[f"head.{name}"].dtype != np.int32:
                raise ValueError(f"head.{name} is {arrays[f'head.{name}'].dtype}, not int32")
        classifier = Classifier(labels, *(arrays[f"head.{name}"] for name in CLASSIFIER_ARRAYS))
    return Head(int(record["range_exponent"]), _pair(record["logit"]), _pair(record["feature"]), classifier)


def _pair(values: Any) -> tuple[int, int]:
    mantissa, exponent = values
    return int(mantissa), int(exponent)
