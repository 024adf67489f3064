"""A `.tflite` file as plain data: tensors and operators in order, every size checked against the bytes there are."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tflite
from flatbuffers import flexbuffers
from numpy.typing import NDArray

from everbit.errors import FormatError, UnsupportedError

MOST_TENSORS = 20_000
MOST_RANK = 8
MOST_ELEMENTS = 2**26
"""Most values of one tensor: 256 MB as float32, more than any network for small devices holds."""

DTYPES: dict[int, str] = {
    tflite.TensorType.FLOAT32: "<f4",
    tflite.TensorType.FLOAT16: "<f2",
    tflite.TensorType.INT32: "<i4",
    tflite.TensorType.INT64: "<i8",
    tflite.TensorType.UINT8: "u1",
    tflite.TensorType.INT8: "i1",
}
"""NumPy dtypes of the tensors that are read."""

_KINDS = {code: name for name, code in vars(tflite.BuiltinOperator).items() if isinstance(code, int)}

_CONVOLUTION = ("Padding", "StrideH", "StrideW", "DilationHFactor", "DilationWFactor", "FusedActivationFunction")
_POOL = ("Padding", "StrideH", "StrideW", "FilterHeight", "FilterWidth", "FusedActivationFunction")
_ACTIVATION = ("FusedActivationFunction",)
_OPTIONS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "CONV_2D": (tflite.Conv2DOptions, _CONVOLUTION),
    "DEPTHWISE_CONV_2D": (tflite.DepthwiseConv2DOptions, (*_CONVOLUTION, "DepthMultiplier")),
    "MAX_POOL_2D": (tflite.Pool2DOptions, _POOL),
    "AVERAGE_POOL_2D": (tflite.Pool2DOptions, _POOL),
    "FULLY_CONNECTED": (tflite.FullyConnectedOptions, (*_ACTIVATION, "WeightsFormat", "KeepNumDims")),
    "ADD": (tflite.AddOptions, _ACTIVATION),
    "SUB": (tflite.SubOptions, _ACTIVATION),
    "MUL": (tflite.MulOptions, _ACTIVATION),
    "CONCATENATION": (tflite.ConcatenationOptions, (*_ACTIVATION, "Axis")),
}
"""Options that are read, by operator; those of all others say nothing that the tensors do not."""

CUSTOM_OPTIONS: dict[str, dict[str, int | None]] = {
    "LceQuantize": {},
    "LceDequantize": {},
    "LceBconv2d": {
        "channels_in": None,
        "dilation_height_factor": 1,
        "dilation_width_factor": 1,
        "fused_activation_function": 0,
        "pad_values": 0,
        "padding": None,
        "stride_height": None,
        "stride_width": None,
    },
    "LceBMaxPool2d": dict.fromkeys(("padding", "stride_height", "stride_width", "filter_height", "filter_width")),
}
"""Options of Larq Compute Engine's operators and what they are where the file does not say; None: it must say."""

_DAMAGE = (
    struct.error,
    IndexError,
    KeyError,
    ValueError,
    TypeError,
    OverflowError,
    AttributeError,
    RecursionError,
    MemoryError,
    AssertionError,
)
"""What the readers of flatbuffers and flexbuffers raise where an offset leads astray; neither of them verifies."""


@dataclass(frozen=True)
class FileTensor:
    """One tensor.

    shape: as the file has it, batch first. dtype: NumPy's name. data: the constant's values in that shape, None where
    an operator makes the tensor. scale, zero_point, axis: of a quantized one, real = scale * (q - zero_point) along the
    axis; scale is None for others.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    data: NDArray[np.generic] | None
    scale: NDArray[np.float64] | None
    zero_point: NDArray[np.int64]
    axis: int


@dataclass(frozen=True)
class Operator:
    """One step: `kind` is TensorFlow Lite's name or a custom operator's; an absent input is -1."""

    index: int
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: dict[str, int]


@dataclass(frozen=True)
class LiteFile:
    """A network: tensors by index, operators in the order they run, indices of its inputs and outputs."""

    tensors: tuple[FileTensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def read_tflite(path: Path) -> LiteFile:
    """Reads a file. Raises FormatError where it is damaged, UnsupportedError where it has several graphs."""
    content = path.read_bytes()
    try:
        return _Reader(content).file()
    except _DAMAGE as error:
        if isinstance(error, FormatError):
            raise FormatError(f"{path}: {error}") from error
        raise FormatError(f"{path} is damaged ({error or type(error).__name__}): copy or convert it again") from error


class _Reader:
    def __init__(self, content: bytes) -> None:
        self.content = content
        self.model = tflite.Model.GetRootAs(content, 0)

    def file(self) -> LiteFile:
        graphs = self.model.SubgraphsLength()
        if graphs != 1:
            raise UnsupportedError(f"it holds {graphs} graphs: convert a network without control flow")
        graph = self.model.Subgraphs(0)
        counts = (graph.TensorsLength(), graph.OperatorsLength(), self.model.BuffersLength())
        if max(counts) > MOST_TENSORS:
            raise ValueError(f"{max(counts)} tensors or operators")
        tensors = tuple(self._tensor(graph.Tensors(index), index) for index in range(counts[0]))
        operators = tuple(self._operator(graph.Operators(index), index) for index in range(counts[1]))
        file = LiteFile(tensors, operators, _integers(graph, "Inputs"), _integers(graph, "Outputs"))
        for operator in operators:
            _check_indices(operator.inputs, len(tensors), f"operator {operator.index}", least=-1)
            _check_indices(operator.outputs, len(tensors), f"operator {operator.index}", least=0)
        _check_indices(file.inputs + file.outputs, len(tensors), "the graph", least=0)
        return file

    def _tensor(self, tensor: Any, index: int) -> FileTensor:
        name = (tensor.Name() or b"").decode("utf-8", "replace")
        where = f"tensor {index} ({name})"
        shape = _integers(tensor, "Shape")
        if len(shape) > MOST_RANK or any(size < 0 for size in shape):
            raise FormatError(f"{where} has the shape {list(shape)}: convert the network again")
        elements = 1
        for size in shape:
            elements *= size
        if elements > MOST_ELEMENTS:
            raise FormatError(
                f"{where} of shape {list(shape)} holds {elements} values, at most {MOST_ELEMENTS} are read: "
                "convert the network for smaller images"
            )
        dtype = DTYPES.get(tensor.Type())
        data = self._data(tensor.Buffer(), where)
        if data is not None and dtype is not None:
            if len(data) != elements * np.dtype(dtype).itemsize:
                raise FormatError(f"{where} of shape {list(shape)} has {len(data)} bytes of data: copy the file again")
            data = data.view(dtype).reshape(shape)
            if data.dtype.kind == "f" and not np.isfinite(data).all():
                raise FormatError(f"{where} holds values that are not finite: train or convert the network again")
        scale, zero_point, axis = _quantization(tensor.Quantization(), shape, where)
        name_of_dtype = np.dtype(dtype).name if dtype is not None else f"type {tensor.Type()}"
        return FileTensor(index, name, shape, name_of_dtype, data, scale, zero_point, axis)

    def _data(self, buffer: int, where: str) -> NDArray[Any] | None:
        """Bytes of a constant, uint8; None where the buffer is empty."""
        _check_indices((buffer,), self.model.BuffersLength(), where, least=0)
        found = self.model.Buffers(buffer)
        if found.DataLength() > 0:
            return np.asarray(found.DataAsNumpy())
        if found.Size() > 0:
            start, size = found.Offset(), found.Size()
            if start + size > len(self.content):
                raise FormatError(f"{where} lies beyond the end of the file: copy it again")
            return np.frombuffer(self.content, np.uint8, size, start)
        return None

    def _operator(self, operator: Any, index: int) -> Operator:
        code = self.model.OperatorCodes(_in_range(operator.OpcodeIndex(), self.model.OperatorCodesLength()))
        builtin = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        kind = _KINDS.get(builtin, f"builtin {builtin}")
        if kind == "CUSTOM":
            kind = (code.CustomCode() or b"").decode("utf-8", "replace")
            options = _custom_options(operator, kind) if kind in CUSTOM_OPTIONS else {}
        else:
            options = _builtin_options(operator, kind) if kind in _OPTIONS else {}
        return Operator(index, kind, _integers(operator, "Inputs"), _integers(operator, "Outputs"), options)


def _integers(table: Any, field: str) -> tuple[int, ...]:
    if getattr(table, f"{field}Length")() == 0:
        return ()
    return tuple(int(value) for value in getattr(table, f"{field}AsNumpy")())


def _in_range(index: int, count: int) -> int:
    if not 0 <= index < count:
        raise IndexError(f"index {index} of {count}")
    return index


def _check_indices(indices: tuple[int, ...], count: int, where: str, least: int) -> None:
    for index in indices:
        if not least <= index < count:
            raise FormatError(f"{where} reads number {index} of {count} there are: copy or convert the file again")


def _builtin_options(operator: Any, kind: str) -> dict[str, int]:
    reader, names = _OPTIONS[kind]
    options, table = reader(), operator.BuiltinOptions()
    if table is None:
        raise ValueError(f"operator {kind} has no options")
    options.Init(table.Bytes, table.Pos)
    return {name: int(getattr(options, name)()) for name in names}


def _custom_options(operator: Any, kind: str) -> dict[str, int]:
    known = CUSTOM_OPTIONS[kind]
    if not known:
        return {}
    found = flexbuffers.GetRoot(operator.CustomOptionsAsNumpy().tobytes()).AsMap
    options = {}
    for name, otherwise in known.items():
        try:
            options[name] = int(found[name].AsInt)
        except KeyError:
            if otherwise is None:
                raise ValueError(f"{kind} lacks its option {name}") from None
            options[name] = otherwise
    return options


def _quantization(
    quantization: Any, shape: tuple[int, ...], where: str
) -> tuple[NDArray[np.float64] | None, NDArray[np.int64], int]:
    none = np.zeros(1, np.int64)
    if quantization is None or quantization.ScaleLength() == 0:
        return None, none, 0
    scale = quantization.ScaleAsNumpy().astype(np.float64)
    axis = int(quantization.QuantizedDimension())
    if not (np.isfinite(scale).all() and (scale > 0).all()):
        raise FormatError(f"{where} has a scale that is no positive number: convert the network again")
    if len(scale) > 1 and not (0 <= axis < len(shape) and len(scale) == shape[axis]):
        raise FormatError(f"{where} has {len(scale)} scales, which fit none of its axes: convert the network again")
    zero_point = quantization.ZeroPointAsNumpy().astype(np.int64) if quantization.ZeroPointLength() else none
    if len(zero_point) not in (1, len(scale)):
        raise FormatError(f"{where} has {len(zero_point)} zero points for {len(scale)} scales: convert it again")
    return scale, zero_point, axis
