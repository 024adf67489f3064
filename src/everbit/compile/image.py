"""Program -> the bytes the engine reads in place.

Little-endian. A header of int32 fields, then records of int32 for every tensor, layer and parameter, then the arrays,
each aligned to 64 bytes. `engine/program.h` is the reader and checks everything; nothing is trusted because Python
wrote it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from everbit.compile.operations import OPERATIONS, PARAMETER_KINDS
from everbit.compile.program import Layer, Program

MAGIC = b"EVERBIT\0"
VERSION = 1
ALIGNMENT = 64
MAX_ATTRIBUTES = 8
MAX_ARRAYS = 4
MAX_PARAMETERS = 3
ABSENT = -1


class _Payload:
    """Arrays joined at aligned offsets."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.blob = bytearray()

    def add(self, array: NDArray[np.generic]) -> tuple[int, int]:
        """Appends an array; returns its offset in the image and its length in bytes."""
        self.blob += bytes(-len(self.blob) % ALIGNMENT)
        data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        offset = self.start + len(self.blob)
        self.blob += data
        return offset, len(data)


def program_image(program: Program) -> bytes:
    """The program as one block of bytes, the same on every machine."""
    parameter_count = sum(len(layer.parameters) for layer in program.layers)
    header_fields, tensor_fields, parameter_fields = 16, 5, 6
    layer_fields = 4 + MAX_ATTRIBUTES + 2 * MAX_ARRAYS + MAX_PARAMETERS
    table_fields = (
        header_fields
        + tensor_fields * len(program.tensors)
        + layer_fields * len(program.layers)
        + parameter_fields * parameter_count
    )
    table_bytes = len(MAGIC) + 4 * table_fields
    payload = _Payload((table_bytes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT)

    layer_records: list[int] = []
    parameter_records: list[int] = []
    for index, layer in enumerate(program.layers):
        dtypes = OPERATIONS[layer.kind].dtypes(program.layer_bits(layer))
        layer_records += _layer_record(index, layer, dtypes, payload, parameter_records)
    tensor_records = [value for t in program.tensors for value in (t.height, t.width, t.channels, t.bits, t.zero_point)]
    head = program.head
    classifier = _classifier_record(program, payload)
    header = [
        VERSION,
        payload.start + len(payload.blob),
        len(program.tensors),
        len(program.layers),
        parameter_count,
        head.range_exponent,
        *head.logit,
        *head.feature,
        *classifier,
    ]
    header += [0] * (header_fields - len(header))
    table = np.array(header + tensor_records + layer_records + parameter_records, "<i4").tobytes()
    return (MAGIC + table).ljust(payload.start, b"\0") + bytes(payload.blob)


def _classifier_record(program: Program, payload: _Payload) -> list[int]:
    """Number of classes and the offsets of weights, biases and counts. Raises ValueError where shapes differ."""
    classifier = program.head.classifier
    if classifier is None:
        return []
    count = len(classifier.labels)
    arrays = (classifier.weights, classifier.bias, classifier.past)
    if [array.shape for array in arrays] != [(count, program.features), (count,), (count,)]:
        raise ValueError(f"the head's arrays do not have one row for each of {count} classes")
    return [count, *(payload.add(array.astype(np.int32, copy=False))[0] for array in arrays)]


def _layer_record(
    index: int, layer: Layer, dtypes: dict[str, str], payload: _Payload, parameter_records: list[int]
) -> list[int]:
    operation = OPERATIONS[layer.kind]
    inputs = list(layer.inputs) + [ABSENT] * (2 - len(layer.inputs))
    known = dict.fromkeys(operation.later, 0) | layer.attributes
    attributes = [known[name] for name in operation.attributes]
    arrays: list[int] = []
    for name, dtype in dtypes.items():
        arrays += payload.add(layer.arrays[name].astype(dtype, copy=False)) if name in layer.arrays else (0, 0)
    parameters: list[int] = []
    for name, kind in operation.parameters:
        if name not in layer.parameters:
            parameters.append(ABSENT)
            continue
        parameters.append(len(parameter_records) // 6)
        parameter = layer.parameters[name]
        offset, length = payload.add(parameter.values.astype(np.int32, copy=False))
        parameter_records += [
            index,
            PARAMETER_KINDS.index(kind),
            parameter.values.size,
            parameter.range_exponent,
            offset,
            length,
        ]
    return (
        [operation.code, *inputs, layer.output]
        + attributes
        + [0] * (MAX_ATTRIBUTES - len(attributes))
        + arrays
        + [0] * (2 * MAX_ARRAYS - len(arrays))
        + parameters
        + [ABSENT] * (MAX_PARAMETERS - len(parameters))
    )
