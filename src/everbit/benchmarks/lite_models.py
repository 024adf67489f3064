"""Networks in TensorFlow Lite's format, run by what their makers offer: Larq Compute Engine and LiteRT."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everbit.benchmarks.measurements import NotMeasuredError
from everbit.benchmarks.peers import PEERS

QUICKNET = "quicknet_random.tflite"
MOBILENET_V2 = "mobilenetv2_int8_random.tflite"
FOLDER = "peers"

Forward = Callable[[], object]


def model_file(name: str) -> Path:
    """A network's file, in the folder `peers` of EVERBIT_DATA or ./data. Raises NotMeasuredError where it is absent."""
    folder = Path(os.environ.get("EVERBIT_DATA", "data")) / FOLDER
    path = folder / name
    if not path.is_file():
        raise NotMeasuredError(
            f"needs {name} in {folder.absolute()}: name the folder that holds {FOLDER}/ by EVERBIT_DATA "
            "(docs/data.md says what the file is)"
        )
    return path


def lce_forward(path: Path, image: NDArray[np.float32], threads: int) -> Forward:
    """One call is one forward pass of Larq Compute Engine's interpreter on [1, H, W, 3].

    Its package imports TensorFlow, for the converter; the interpreter, a module of its own, needs none. Raises
    NotMeasuredError where it cannot run.
    """
    found = _found("larq_compute_engine")
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        raise NotMeasuredError("Larq Compute Engine reads arrays as NumPy 1 lays them out: " + _install("numpy<2"))
    library = Path(found) / "tflite" / "python" / "interpreter_wrapper_lite.so"
    spec = importlib.util.spec_from_file_location("interpreter_wrapper_lite", library)
    if spec is None or spec.loader is None:
        raise NotMeasuredError(f"{library} is missing: {_install('larq_compute_engine')}")
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    interpreter = module.LiteInterpreter(path.read_bytes(), threads, False, False, False)
    return lambda: interpreter.predict([image])


def litert_forward(path: Path, image: NDArray[np.float32], threads: int) -> Forward:
    """One call is one forward pass of LiteRT on [1, H, W, 3]. Raises NotMeasuredError where it is absent."""
    _found("ai_edge_litert")
    interpreter_module: Any = importlib.import_module("ai_edge_litert.interpreter")
    interpreter = interpreter_module.Interpreter(str(path), num_threads=threads)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image)
    run: Forward = interpreter.invoke
    return run


def _found(module: str) -> str:
    """The folder of a package."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise NotMeasuredError(f"needs {PEERS[module][0]}: {PEERS[module][1]}")
    return str(spec.submodule_search_locations[0])


def _install(package: str) -> str:
    return PEERS[package][1] if package in PEERS else f'pip install "{package}"'
