"""libeverbit through ctypes: the structs of everbit.h, and a learner in memory at an aligned address."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from pathlib import Path

import numpy as np

ALIGNMENT = 64
MESSAGES = 15
KINDS = 5


class Program(ctypes.Structure):
    _fields_ = [("opaque", c_uint64 * 8)]


class Facts(ctypes.Structure):
    _fields_ = [
        *((name, c_int32) for name in ("height", "width", "channels", "known_classes", "features", "reserved")),
        ("latent_bytes", c_size_t),
        ("workspace_bytes", c_size_t),
    ]


class Rate(ctypes.Structure):
    _fields_ = [("mantissa", c_int32), ("exponent", c_int32)]


class Options(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        *(
            (name, c_int32)
            for name in (
                "classes",
                "replay_slots",
                "replay_per_class",
                "experience_patterns",
                "batch_new",
                "batch_replayed",
                "binary_bits",
                "other_bits",
                "head",
                "train_body",
                "count_replayed",
                "stochastic_rounding",
                "threads",
            )
        ),
        ("seed", c_uint64),
        ("rates", Rate * KINDS),
    ]


class Memory(ctypes.Structure):
    _fields_ = [(name, c_size_t) for name in ("state", "replay", "experience", "fixed", "shared", "handle", "total")]


class Step(ctypes.Structure):
    _fields_ = [("right", c_int32), ("patterns", c_int32)]


Callback = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t)
Handle = c_void_p
SIGNATURES = {
    "everbit_status_message": (c_char_p, [c_int]),
    "everbit_program_open": (c_int, [POINTER(Program), c_void_p, c_size_t, POINTER(c_char_p)]),
    "everbit_program_facts": (Facts, [POINTER(Program)]),
    "everbit_ratio": (Rate, [c_uint32, c_uint32]),
    "everbit_options_init": (c_int, [POINTER(Options), c_size_t, POINTER(Program)]),
    "everbit_learner_size": (
        c_int,
        [POINTER(Program), POINTER(Options), c_void_p, POINTER(Memory), POINTER(c_char_p)],
    ),
    "everbit_learner_init": (
        c_int,
        [c_void_p, c_size_t, POINTER(Program), POINTER(Options), POINTER(Handle), POINTER(c_char_p)],
    ),
    "everbit_learner_detail": (c_char_p, [Handle]),
    "everbit_learner_memory": (c_int, [Handle, POINTER(Memory)]),
    "everbit_observe": (c_int, [Handle, c_void_p, c_int32]),
    "everbit_observe_latent": (c_int, [Handle, c_void_p, c_int32]),
    "everbit_encode": (c_int, [Handle, c_void_p, c_void_p]),
    "everbit_begin_training": (c_int, [Handle, c_int32, POINTER(c_int64)]),
    "everbit_train_step": (c_int, [Handle, POINTER(Step)]),
    "everbit_consolidate": (c_int, [Handle]),
    "everbit_predict": (c_int, [Handle, c_void_p, POINTER(c_int32), c_void_p, c_void_p]),
    "everbit_predict_latent": (c_int, [Handle, c_void_p, POINTER(c_int32), c_void_p, c_void_p]),
    "everbit_knows": (c_int, [Handle, c_int32]),
    "everbit_digest": (c_int, [Handle, POINTER(c_uint64)]),
    "everbit_saved_bytes": (c_size_t, [Handle]),
    "everbit_save": (c_int, [Handle, Callback, c_void_p]),
    "everbit_restore": (c_int, [Handle, Callback, c_void_p]),
}
"""Every function of the library: its result and its arguments."""


def load(path: Path) -> ctypes.CDLL:
    """The shared library, its functions typed."""
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def aligned(size: int, alignment: int = ALIGNMENT) -> np.ndarray:
    """Zeros at a multiple of an alignment."""
    memory = np.zeros(size + alignment, np.uint8)
    start = -memory.ctypes.data % alignment
    return memory[start : start + size]


def aligned_bytes(content: bytes) -> np.ndarray:
    memory = aligned(len(content))
    memory[:] = np.frombuffer(content, np.uint8)
    return memory


class RefusedError(Exception):
    """A status that is not EVERBIT_OK, with its detail."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status, self.detail = status, detail


class CLearner:
    """A learner of the library; methods are its functions, failures raise."""

    def __init__(self, library: ctypes.CDLL, image: bytes, **options: object) -> None:
        self.library = library
        self.image = aligned_bytes(image)
        self.program, detail = Program(), c_char_p()
        self._check(
            library.everbit_program_open(byref(self.program), self.image.ctypes.data, len(image), byref(detail)), detail
        )
        self.facts = library.everbit_program_facts(byref(self.program))
        self.options = Options()
        library.everbit_options_init(byref(self.options), ctypes.sizeof(Options), byref(self.program))
        for name, value in options.items():
            setattr(self.options, name, value)
        workspace, self.memory = aligned(self.facts.workspace_bytes), Memory()
        self._check(
            library.everbit_learner_size(
                byref(self.program), byref(self.options), workspace.ctypes.data, byref(self.memory), byref(detail)
            ),
            detail,
        )
        self.room = aligned(self.memory.total)
        self.room[:] = 0xA5  # what was there before must not matter
        self.handle = Handle()
        self._check(
            library.everbit_learner_init(
                self.room.ctypes.data,
                len(self.room),
                byref(self.program),
                byref(self.options),
                byref(self.handle),
                byref(detail),
            ),
            detail,
        )

    def _check(self, status: int, detail: c_char_p | None = None) -> None:
        if status != 0:
            words = self.library.everbit_learner_detail(self.handle) if detail is None else detail.value
            raise RefusedError(status, words.decode())

    def observe(self, images: np.ndarray, labels: Sequence[int]) -> None:
        for image, label in zip(images, labels, strict=True):
            self._check(self.library.everbit_observe(self.handle, np.ascontiguousarray(image).ctypes.data, label))

    def encode(self, image: np.ndarray) -> np.ndarray:
        latent = np.zeros(self.facts.latent_bytes, np.uint8)
        self._check(self.library.everbit_encode(self.handle, image.ctypes.data, latent.ctypes.data))
        return latent

    def observe_latents(self, latents: Sequence[np.ndarray], labels: Sequence[int]) -> None:
        for latent, label in zip(latents, labels, strict=True):
            self._check(self.library.everbit_observe_latent(self.handle, latent.ctypes.data, label))

    def train(self, epochs: int) -> list[tuple[int, int]]:
        """Begins, takes every step and consolidates; returns right and all patterns of each step."""
        count, step, steps = c_int64(), Step(), []
        self._check(self.library.everbit_begin_training(self.handle, epochs, byref(count)))
        for _ in range(count.value):
            self._check(self.library.everbit_train_step(self.handle, byref(step)))
            steps.append((step.right, step.patterns))
        self._check(self.library.everbit_consolidate(self.handle))
        return steps

    def predict(self, image: np.ndarray, latent: bool = False) -> tuple[int, np.ndarray, np.ndarray]:
        """Label, logits and probabilities of one image, or of a latent."""
        label, image = c_int32(), np.ascontiguousarray(image)
        logits, probabilities = np.zeros((2, self.options.classes), np.int32)
        function = self.library.everbit_predict_latent if latent else self.library.everbit_predict
        self._check(
            function(self.handle, image.ctypes.data, byref(label), logits.ctypes.data, probabilities.ctypes.data)
        )
        return label.value, logits, probabilities

    @property
    def digest(self) -> int:
        value = c_uint64()
        self._check(self.library.everbit_digest(self.handle, byref(value)))
        return value.value

    def save(self) -> bytes:
        saved = bytearray()

        def write(_context: object, start: int, size: int) -> int:
            saved.extend((c_uint8 * size).from_address(start))
            return 0

        self._check(self.library.everbit_save(self.handle, Callback(write), None))
        return bytes(saved)

    def restore(self, saved: bytes) -> None:
        """Fails as a file does that ends too early."""
        position = 0

        def read(_context: object, start: int, size: int) -> int:
            nonlocal position
            part = saved[position : position + size]
            ctypes.memmove(start, part, len(part))
            position += len(part)
            return 0 if len(part) == size else 1

        self._check(self.library.everbit_restore(self.handle, Callback(read), None))
