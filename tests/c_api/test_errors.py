"""What the C API refuses: the status, the words, and nothing changed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_char_p, c_int32, c_int64, c_uint64, c_void_p, sizeof

import numpy as np
import pytest

from c_api.conftest import SMALL, image_of
from c_api.library import (
    MESSAGES,
    Callback,
    CLearner,
    Handle,
    Memory,
    Options,
    Program,
    Rate,
    RefusedError,
    aligned,
    aligned_bytes,
)

(
    OK,
    NULL,
    MISALIGNED,
    BAD_PROGRAM,
    BAD_OPTIONS,
    TOO_SMALL,
    NO_LEARNER,
    BAD_LABEL,
    FULL,
    WRONG_ORDER,
    BAD_NUMBER,
    NO_CLASS,
    BAD_STATE,
    NOT_WRITTEN,
    NOT_READ,
) = range(MESSAGES)

IMAGE = image_of(SMALL)
PICTURE = np.zeros((6, 5, 3), np.uint8)
BAD_IMAGES = {
    "empty": (b"\0", BAD_PROGRAM, "shorter than its header"),
    "foreign": (bytes(4096), BAD_PROGRAM, "not an everbit program"),
    "truncated": (IMAGE[:-1], BAD_PROGRAM, "another length"),
    "newer": (IMAGE[:8] + (2).to_bytes(4, "little") + IMAGE[12:], BAD_PROGRAM, "newer everbit"),
}
BAD_CHOICES: dict[str, tuple[dict[str, object], str]] = {
    "no class": ({"classes": 0}, "number of classes"),
    "too many classes": ({"classes": 65535}, "number of classes"),
    "negative slots": ({"replay_slots": -1}, "possible number of patterns"),
    "no latent of a class": ({"replay_per_class": 0}, "possible number of patterns"),
    "no experience": ({"experience_patterns": 0}, "possible number of patterns"),
    "no new pattern": ({"batch_new": 0}, "at least one new pattern"),
    "negative replay": ({"batch_replayed": -1}, "at least one new pattern"),
    "odd binary width": ({"binary_bits": 2}, "1, 4, 8, 16 or 32 bits"),
    "odd width": ({"other_bits": 1}, "8, 16 or 32 bits"),
    "no such head": ({"head": 2}, "EVERBIT_CWR or EVERBIT_PLAIN"),
    "no switch": ({"train_body": 2}, "must be 0 or 1"),
    "no switch either": ({"count_replayed": -1}, "must be 0 or 1"),
    "nor this": ({"stochastic_rounding": 7}, "must be 0 or 1"),
    "no thread": ({"threads": 0}, "between 1 and 256"),
    "too many threads": ({"threads": 257}, "between 1 and 256"),
    "rate that is no Scale": ({"rates": (Rate * 5)(Rate(1, 0))}, "learning rate"),
    "negative rate": ({"rates": (Rate * 5)(Rate(-(2**30), 0))}, "learning rate"),
    "never begun": ({"size": 0}, "everbit_options_init"),
    "too short": ({"size": sizeof(Options) - 1}, "everbit_options_init"),
    "huge batch": ({"batch_new": 2**30}, "mini-batch is too large"),
}


def opened(library: ctypes.CDLL, image: bytes = IMAGE) -> tuple[Program, np.ndarray]:
    """A program, and the bytes that it reads in place."""
    program, content = Program(), aligned_bytes(image)
    assert library.everbit_program_open(byref(program), content.ctypes.data, len(image), None) == OK
    return program, content


def begun(library: ctypes.CDLL, program: Program) -> Options:
    options = Options()
    assert library.everbit_options_init(byref(options), sizeof(options), byref(program)) == OK
    return options


def test_every_status_has_a_message(library: ctypes.CDLL) -> None:
    messages = [library.everbit_status_message(status) for status in range(MESSAGES)]
    assert len(set(messages)) == MESSAGES
    unknown = {library.everbit_status_message(status) for status in (-1, MESSAGES, 2**31 - 1)}
    assert unknown == {b"there is no such status"}


@pytest.mark.parametrize("name", BAD_IMAGES)
def test_bytes_that_are_no_program(library: ctypes.CDLL, name: str) -> None:
    content, status, words = BAD_IMAGES[name]
    program, detail, memory = Program(), c_char_p(), aligned_bytes(content)
    assert library.everbit_program_open(byref(program), memory.ctypes.data, len(content), byref(detail)) == status
    assert words in detail.value.decode()
    assert library.everbit_program_facts(byref(program)).height == 0
    assert library.everbit_options_init(byref(Options()), sizeof(Options), byref(program)) == BAD_PROGRAM


def test_a_program_must_be_aligned(library: ctypes.CDLL) -> None:
    memory = aligned(len(IMAGE) + 8)
    memory[8:] = np.frombuffer(IMAGE, np.uint8)
    assert library.everbit_program_open(byref(Program()), memory.ctypes.data + 8, len(IMAGE), None) == MISALIGNED


@pytest.mark.parametrize("name", BAD_CHOICES)
def test_options_out_of_range(library: ctypes.CDLL, name: str) -> None:
    choices, words = BAD_CHOICES[name]
    program, _content = opened(library)
    options = begun(library, program)
    for field, value in choices.items():
        setattr(options, field, value)
    facts = library.everbit_program_facts(byref(program))
    workspace, memory, detail = aligned(facts.workspace_bytes), Memory(), c_char_p()
    arguments = byref(program), byref(options)
    status = library.everbit_learner_size(*arguments, workspace.ctypes.data, byref(memory), byref(detail))
    assert (status, memory.total) == (BAD_OPTIONS, 0)
    assert words in detail.value.decode()
    room, handle = aligned(1 << 20), Handle()
    status = library.everbit_learner_init(room.ctypes.data, len(room), *arguments, byref(handle), byref(detail))
    assert (status, handle.value) == (BAD_OPTIONS, None)
    assert words in detail.value.decode()


def test_options_of_a_newer_header(library: ctypes.CDLL) -> None:
    """A larger struct is taken as long as what this library does not know is 0."""
    program, _content = opened(library)
    larger = aligned(sizeof(Options) + 16)
    pointer = ctypes.cast(larger.ctypes.data, ctypes.POINTER(Options))
    assert library.everbit_options_init(pointer, len(larger), byref(program)) == OK
    facts = library.everbit_program_facts(byref(program))
    workspace, memory, detail = aligned(facts.workspace_bytes), Memory(), c_char_p()
    arguments = byref(program), pointer, workspace.ctypes.data, byref(memory), byref(detail)
    assert library.everbit_learner_size(*arguments) == OK
    larger[-1] = 1
    assert library.everbit_learner_size(*arguments) == BAD_OPTIONS
    assert "newer library" in detail.value.decode()
    assert library.everbit_options_init(pointer, sizeof(Options) - 1, byref(program)) == BAD_OPTIONS


@pytest.mark.parametrize("short", [1, 4096, 10**9])
def test_memory_that_is_too_small(library: ctypes.CDLL, learner: CLearner, short: int) -> None:
    size = max(learner.memory.total - short, 0)
    room, handle, detail = aligned(learner.memory.total), Handle(), c_char_p()
    arguments = byref(learner.program), byref(learner.options), byref(handle), byref(detail)
    assert library.everbit_learner_init(room.ctypes.data, size, *arguments) == TOO_SMALL
    assert "everbit_learner_size" in detail.value.decode()
    assert not room[size:].any()


def test_memory_that_is_misaligned(library: ctypes.CDLL, learner: CLearner) -> None:
    total = learner.memory.total
    room, handle = aligned(total + 64), Handle()
    programs = byref(learner.program), byref(learner.options)
    assert library.everbit_learner_init(room.ctypes.data + 32, total, *programs, byref(handle), None) == MISALIGNED
    workspace = aligned(learner.facts.workspace_bytes + 8).ctypes.data + 8
    assert library.everbit_learner_size(*programs, workspace, byref(Memory()), None) == MISALIGNED


def test_exactly_the_memory_it_takes_is_enough(library: ctypes.CDLL, learner: CLearner) -> None:
    total = learner.memory.total
    room, handle = aligned(total + 64), Handle()
    room[total:] = 0xC3
    programs = byref(learner.program), byref(learner.options)
    assert library.everbit_learner_init(room.ctypes.data, total, *programs, byref(handle), None) == OK
    learner.handle = handle
    learner.observe(np.zeros((4, 6, 5, 3), np.uint8), [0, 1, 2, 0])
    learner.train(2)
    assert (room[total:] == 0xC3).all()


CALLS: dict[str, Callable[[ctypes.CDLL, object], int]] = {
    "detail": lambda library, it: NO_LEARNER if b"no learner" in library.everbit_learner_detail(it) else OK,
    "memory": lambda library, it: library.everbit_learner_memory(it, byref(Memory())),
    "observe": lambda library, it: library.everbit_observe(it, PICTURE.ctypes.data, 0),
    "observe latent": lambda library, it: library.everbit_observe_latent(it, PICTURE.ctypes.data, 0),
    "encode": lambda library, it: library.everbit_encode(it, PICTURE.ctypes.data, PICTURE.ctypes.data),
    "begin": lambda library, it: library.everbit_begin_training(it, 1, byref(c_int64())),
    "step": lambda library, it: library.everbit_train_step(it, None),
    "consolidate": lambda library, it: library.everbit_consolidate(it),
    "predict": lambda library, it: library.everbit_predict(it, PICTURE.ctypes.data, byref(c_int32()), None, None),
    "knows": lambda library, it: NO_LEARNER if library.everbit_knows(it, 0) == 0 else OK,
    "digest": lambda library, it: library.everbit_digest(it, byref(c_uint64())),
    "saved bytes": lambda library, it: NO_LEARNER if library.everbit_saved_bytes(it) == 0 else OK,
    "save": lambda library, it: library.everbit_save(it, Callback(lambda *_: 0), None),
    "restore": lambda library, it: library.everbit_restore(it, Callback(lambda *_: 0), None),
}


@pytest.mark.parametrize("call", CALLS)
def test_memory_that_holds_no_learner(library: ctypes.CDLL, call: str) -> None:
    memory = aligned(4096)
    assert CALLS[call](library, memory.ctypes.data) == NO_LEARNER
    assert CALLS[call](library, None) in (NULL, NO_LEARNER)


NULLS: dict[str, Callable[[ctypes.CDLL, c_void_p], int]] = {
    "memory": lambda library, it: library.everbit_learner_memory(it, None),
    "observe": lambda library, it: library.everbit_observe(it, None, 0),
    "observe latent": lambda library, it: library.everbit_observe_latent(it, None, 0),
    "encode": lambda library, it: library.everbit_encode(it, PICTURE.ctypes.data, None),
    "encode nothing": lambda library, it: library.everbit_encode(it, None, PICTURE.ctypes.data),
    "begin": lambda library, it: library.everbit_begin_training(it, 1, None),
    "predict": lambda library, it: library.everbit_predict(it, None, byref(c_int32()), None, None),
    "predict latent": lambda library, it: library.everbit_predict_latent(it, None, byref(c_int32()), None, None),
    "predict no label": lambda library, it: library.everbit_predict(it, PICTURE.ctypes.data, None, None, None),
    "digest": lambda library, it: library.everbit_digest(it, None),
    "save": lambda library, it: library.everbit_save(it, Callback(), None),
    "restore": lambda library, it: library.everbit_restore(it, Callback(), None),
    "open": lambda library, it: library.everbit_program_open(None, PICTURE.ctypes.data, 1, None),
    "open nothing": lambda library, it: library.everbit_program_open(byref(Program()), None, 1, None),
    "options": lambda library, it: library.everbit_options_init(None, sizeof(Options), byref(Program())),
    "options of nothing": lambda library, it: library.everbit_options_init(byref(Options()), sizeof(Options), None),
    "size": lambda library, it: library.everbit_learner_size(byref(Program()), byref(Options()), None, None, None),
    "init": lambda library, it: library.everbit_learner_init(None, 0, None, None, None, None),
}


@pytest.mark.parametrize("call", NULLS)
def test_null_pointers(library: ctypes.CDLL, learner: CLearner, call: str) -> None:
    before = learner.digest
    assert NULLS[call](library, learner.handle) == NULL
    assert learner.digest == before


def observed(learner: CLearner, count: int = 2) -> None:
    learner.observe(np.zeros((count, 6, 5, 3), np.uint8), [i % 3 for i in range(count)])


def training(learner: CLearner) -> None:
    observed(learner)
    assert learner.library.everbit_begin_training(learner.handle, 1, byref(c_int64())) == OK


def nothing(learner: CLearner) -> None:
    """A learner as it was made."""


ORDERS: dict[str, tuple[Callable[[CLearner], None], str, int, str]] = {
    "train nothing": (nothing, "begin", WRONG_ORDER, "nothing was observed"),
    "step before training": (observed, "step", WRONG_ORDER, "everbit_begin_training"),
    "consolidate before training": (observed, "consolidate", WRONG_ORDER, "everbit_begin_training"),
    "train twice": (training, "begin", WRONG_ORDER, "trained on already"),
    "observe while training": (training, "observe", WRONG_ORDER, "end it before"),
    "save while training": (training, "save", WRONG_ORDER, "everbit_consolidate"),
    "predict before learning": (observed, "predict", NO_CLASS, "knows no class"),
    "observe too much": (lambda learner: observed(learner, 4), "observe", FULL, "as many patterns"),
    "latent too much": (lambda learner: observed(learner, 4), "observe latent", FULL, "as many patterns"),
}


@pytest.mark.parametrize("name", ORDERS)
def test_calls_in_a_wrong_order(library: ctypes.CDLL, learner: CLearner, name: str) -> None:
    before, call, status, words = ORDERS[name]
    before(learner)
    digest = learner.digest
    assert CALLS[call](library, learner.handle) == status
    assert words in library.everbit_learner_detail(learner.handle).decode()
    assert learner.digest == digest


@pytest.mark.parametrize("label", [-1, 3, 2**31 - 1, -(2**31)])
def test_labels_beyond_the_classes(learner: CLearner, label: int) -> None:
    with pytest.raises(RefusedError, match="beyond the learner's classes") as caught:
        learner.observe(PICTURE[None], [label])
    assert caught.value.status == BAD_LABEL
    assert learner.library.everbit_knows(learner.handle, label) == 0


@pytest.mark.parametrize("epochs", [0, -1, 65537])
def test_epochs_out_of_range(learner: CLearner, epochs: int) -> None:
    observed(learner)
    with pytest.raises(RefusedError, match="between 1 and 65536") as caught:
        learner.train(epochs)
    assert caught.value.status == BAD_NUMBER


def test_what_is_known(library: ctypes.CDLL, learner: CLearner) -> None:
    learner.observe(np.zeros((2, 6, 5, 3), np.uint8), [2, 2])
    learner.train(1)
    assert [library.everbit_knows(learner.handle, label) for label in range(3)] == [0, 0, 1]
    label, logits, probabilities = learner.predict(PICTURE)
    assert (label, probabilities.tolist()) == (2, [0, 0, 2**30])
    assert (logits[:2] == np.iinfo(np.int32).min).all()
