"""Small `.tflite` files made in tests, and the interpreters that are their oracles."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
import tflite
from flatbuffers import flexbuffers

TYPES = {
    "float32": tflite.TensorType.FLOAT32,
    "float16": tflite.TensorType.FLOAT16,
    "int32": tflite.TensorType.INT32,
    "int8": tflite.TensorType.INT8,
}

OPTIONS = {
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "FULLY_CONNECTED": "FullyConnectedOptions",
    "ADD": "AddOptions",
    "SUB": "SubOptions",
    "MUL": "MulOptions",
    "CONCATENATION": "ConcatenationOptions",
    "SOFTMAX": "SoftmaxOptions",
    "MEAN": "ReducerOptions",
    "RESHAPE": "ReshapeOptions",
}

SAME, VALID = 0, 1
NONE, RELU, RELU_N1_TO_1, RELU6 = 0, 1, 2, 3


@dataclass
class LiteModel:
    """A graph written step by step: every method returns the index of the tensor it adds."""

    tensors: list[dict[str, Any]] = field(default_factory=list)
    operators: list[dict[str, Any]] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)

    def tensor(self, shape: Sequence[int], dtype: str = "float32", **more: Any) -> int:
        self.tensors.append({"shape": list(shape), "dtype": dtype, "name": f"tensor_{len(self.tensors)}", **more})
        return len(self.tensors) - 1

    def input(self, *shape: int) -> int:
        self.inputs.append(self.tensor(shape))
        return self.inputs[-1]

    def constant(self, values: Any, dtype: str = "float32", **more: Any) -> int:
        array = np.asarray(values, dtype)
        return self.tensor(array.shape, dtype, data=array.tobytes(), **more)

    def add(
        self, kind: str, inputs: Sequence[int], shape: Sequence[int], dtype: str = "float32", **options: int
    ) -> int:
        output = self.tensor(shape, dtype)
        self.operators.append({"kind": kind, "inputs": list(inputs), "outputs": [output], "options": options})
        return output

    def quantize(self, x: int) -> int:
        """LceQuantize."""
        *places, channels = self.tensors[x]["shape"]
        return self.add("LceQuantize", [x], [*places, (channels + 31) // 32], "int32")

    def bytes(self, *outputs: int) -> bytes:
        """The file; its outputs are the last operator's unless named."""
        chosen = list(outputs) or self.operators[-1]["outputs"]
        return _File(self, chosen).content()

    def save(self, path: Path, *outputs: int) -> Path:
        path.write_bytes(self.bytes(*outputs))
        return path


def pack_filter(signs: np.ndarray) -> np.ndarray:
    """Weights +-1 [out, height, width, in] as Larq Compute Engine packs them: bit 1 for -1, 32 to a word."""
    padded = np.pad(signs < 0, [(0, 0)] * 3 + [(0, -signs.shape[-1] % 32)])
    return np.packbits(padded, axis=-1, bitorder="little").view("<i4")


class _File:
    def __init__(self, model: LiteModel, outputs: list[int]) -> None:
        self.model, self.outputs = model, outputs
        self.builder = flatbuffers.Builder(1024)
        self.kinds = list(dict.fromkeys(operator["kind"] for operator in model.operators))

    def content(self) -> bytes:
        build = self.builder
        tensors = self._vector([self._tensor(i, t) for i, t in enumerate(self.model.tensors)])
        operators = self._vector([self._operator(operator) for operator in self.model.operators])
        inputs, outputs = self._integers(self.model.inputs), self._integers(self.outputs)
        tflite.SubGraphStart(build)
        tflite.SubGraphAddTensors(build, tensors)
        tflite.SubGraphAddInputs(build, inputs)
        tflite.SubGraphAddOutputs(build, outputs)
        tflite.SubGraphAddOperators(build, operators)
        graphs = self._vector([tflite.SubGraphEnd(build)])
        codes = self._vector([self._code(kind) for kind in self.kinds])
        buffers = self._vector([self._buffer(b"")] + [self._buffer(t.get("data", b"")) for t in self.model.tensors])
        tflite.ModelStart(build)
        tflite.ModelAddVersion(build, 3)
        tflite.ModelAddOperatorCodes(build, codes)
        tflite.ModelAddSubgraphs(build, graphs)
        tflite.ModelAddBuffers(build, buffers)
        build.Finish(tflite.ModelEnd(build), b"TFL3")
        return bytes(build.Output())

    def _vector(self, offsets: Sequence[int]) -> int:
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return self.builder.EndVector()

    def _integers(self, values: Sequence[int]) -> int:
        return self.builder.CreateNumpyVector(np.asarray(values, np.int32))

    def _bytes(self, content: bytes) -> int:
        build = self.builder
        build.StartVector(1, len(content), 16)  # kernels expect constants at multiples of 16
        build.head = build.Head() - len(content)
        build.Bytes[build.Head() : build.Head() + len(content)] = content
        return build.EndVector()

    def _buffer(self, content: bytes) -> int:
        data = self._bytes(content) if content else None
        tflite.BufferStart(self.builder)
        if data is not None:
            tflite.BufferAddData(self.builder, data)
        return tflite.BufferEnd(self.builder)

    def _tensor(self, index: int, tensor: dict[str, Any]) -> int:
        build = self.builder
        name, shape = build.CreateString(tensor["name"]), self._integers(tensor["shape"])
        quantization = self._quantization(tensor) if "scale" in tensor else None
        tflite.TensorStart(build)
        tflite.TensorAddShape(build, shape)
        tflite.TensorAddType(build, TYPES[tensor["dtype"]])
        tflite.TensorAddBuffer(build, tensor.get("buffer", index + 1))
        tflite.TensorAddName(build, name)
        if quantization is not None:
            tflite.TensorAddQuantization(build, quantization)
        return tflite.TensorEnd(build)

    def _quantization(self, tensor: dict[str, Any]) -> int:
        build = self.builder
        scale = build.CreateNumpyVector(np.atleast_1d(np.asarray(tensor["scale"], np.float32)))
        zero_point = build.CreateNumpyVector(np.atleast_1d(np.asarray(tensor.get("zero_point", 0), np.int64)))
        tflite.QuantizationParametersStart(build)
        tflite.QuantizationParametersAddScale(build, scale)
        tflite.QuantizationParametersAddZeroPoint(build, zero_point)
        tflite.QuantizationParametersAddQuantizedDimension(build, tensor.get("axis", 0))
        return tflite.QuantizationParametersEnd(build)

    def _code(self, kind: str) -> int:
        build = self.builder
        builtin = getattr(tflite.BuiltinOperator, kind, tflite.BuiltinOperator.CUSTOM)
        name = build.CreateString(kind) if builtin == tflite.BuiltinOperator.CUSTOM else None
        tflite.OperatorCodeStart(build)
        tflite.OperatorCodeAddDeprecatedBuiltinCode(build, min(builtin, 127))
        tflite.OperatorCodeAddBuiltinCode(build, builtin)
        tflite.OperatorCodeAddVersion(build, 1)
        if name is not None:
            tflite.OperatorCodeAddCustomCode(build, name)
        return tflite.OperatorCodeEnd(build)

    def _operator(self, operator: dict[str, Any]) -> int:
        build, kind = self.builder, operator["kind"]
        inputs, outputs = self._integers(operator["inputs"]), self._integers(operator["outputs"])
        options = self._builtin_options(kind, operator["options"]) if kind in OPTIONS else None
        custom = None
        if not hasattr(tflite.BuiltinOperator, kind):
            custom = self._bytes(operator.get("raw_options") or flexbuffers.Dumps(operator["options"]))
        tflite.OperatorStart(build)
        tflite.OperatorAddOpcodeIndex(build, self.kinds.index(kind))
        tflite.OperatorAddInputs(build, inputs)
        tflite.OperatorAddOutputs(build, outputs)
        if options is not None:
            tflite.OperatorAddBuiltinOptionsType(build, getattr(tflite.BuiltinOptions, OPTIONS[kind]))
            tflite.OperatorAddBuiltinOptions(build, options)
        if custom is not None:
            tflite.OperatorAddCustomOptions(build, custom)
        return tflite.OperatorEnd(build)

    def _builtin_options(self, kind: str, options: dict[str, int]) -> int:
        name = OPTIONS[kind]
        getattr(tflite, f"{name}Start")(self.builder)
        for option, value in options.items():
            getattr(tflite, f"{name}Add{option}")(self.builder, value)
        return int(getattr(tflite, f"{name}End")(self.builder))


def lce_outputs(content: bytes, inputs: np.ndarray) -> np.ndarray:
    """What Larq Compute Engine makes of inputs [N, ...], one after the other; skips where it cannot run."""
    found = importlib.util.find_spec("larq_compute_engine")
    if found is None or not found.submodule_search_locations:
        pytest.skip('Larq Compute Engine is not installed: pip install "everbit[peers]"')
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        pytest.skip('Larq Compute Engine reads arrays as NumPy 1 has them: pip install "everbit[peers]"')
    # The package itself imports TensorFlow for its converter; its interpreter needs none.
    library = Path(found.submodule_search_locations[0]) / "tflite" / "python" / "interpreter_wrapper_lite.so"
    spec = importlib.util.spec_from_file_location("interpreter_wrapper_lite", library)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    interpreter = module.LiteInterpreter(content, 1, False, False, False)
    return np.concatenate([interpreter.predict([one[None]])[0] for one in inputs])


def lite_outputs(content: bytes, inputs: np.ndarray) -> np.ndarray:
    """What LiteRT makes of inputs [N, ...], one after the other."""
    interpreter = pytest.importorskip("ai_edge_litert.interpreter").Interpreter(model_content=content)
    interpreter.allocate_tensors()
    outputs = []
    for one in inputs:
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], one[None])
        interpreter.invoke()
        outputs.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).copy())
    return np.concatenate(outputs)
