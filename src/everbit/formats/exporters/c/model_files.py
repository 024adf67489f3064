"""What a project knows of its model: `model.h` and `model.c`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everbit import __version__
from everbit.compile.operations import PARAMETER_KINDS
from everbit.formats.exporters.c.arrays import numbers_of, rows_of, text_of, words_of

OPTIONS = (
    "classes",
    "replay_slots",
    "replay_per_class",
    "experience_patterns",
    "batch_new",
    "batch_replayed",
    "train_body",
    "count_replayed",
    "stochastic_rounding",
)
"""Options that have the same name in Python's bridge and in everbit.h."""

Rows = NDArray[np.uint8]


@dataclass(frozen=True)
class Model:
    """All that the files hold.

    program: the program image. options: of the engine, by the names of its bridge. arena: bytes that the learner takes
    where addresses have 4 and 8 bytes. latents, images, tests: bytes [N, M] and their labels. digest: of the state
    after both experiences. right: tests that the learner gets right then.
    """

    name: str
    program: bytes
    options: dict[str, object]
    names: tuple[str, ...]
    arena: dict[int, int]
    epochs: int
    latents: tuple[Rows, list[int]]
    images: tuple[Rows, list[int]]
    tests: tuple[Rows, list[int]]
    digest: int
    right: int


def header(model: Model) -> str:
    """The text of model.h."""
    facts = {
        "NAME": text_of(model.name),
        "PROGRAM_BYTES": len(model.program),
        "CLASSES": model.options["classes"],
        "LATENTS": len(model.latents[0]),
        "LATENT_BYTES": model.latents[0].shape[1],
        "IMAGES": len(model.images[0]),
        "IMAGE_BYTES": model.images[0].shape[1],
        "TESTS": len(model.tests[0]),
        "EPOCHS": model.epochs,
    }
    lines = [f"#define MODEL_{name} {value}" for name, value in facts.items()]
    return f"""\
/* The model, what it learns from, and what it comes to. Written by everbit {__version__}, `everbit export c`. */
#ifndef MODEL_H
#define MODEL_H

#include <everbit.h>
#include <stdint.h>

{chr(10).join(lines)}

/* Bytes of a learner, with scalar kernels as built here. */
#if defined(MODEL_ARENA_BYTES)
/* The builder's choice. */
#elif UINTPTR_MAX > 0xffffffffu
#define MODEL_ARENA_BYTES {model.arena[8]}
#else
#define MODEL_ARENA_BYTES {model.arena[4]}
#endif

/* What main.c must come to: the digest of the learner's state, and the test images that it gets right. */
#define MODEL_DIGEST UINT64_C({model.digest:#018x})
#define MODEL_TESTS_RIGHT {model.right}

/* The program's bytes, in words so that they are aligned. */
extern const uint64_t model_program[];

/* Labels of the classes, the model's own first. */
extern const char *const model_names[MODEL_CLASSES];

extern const uint8_t model_latents[MODEL_LATENTS][MODEL_LATENT_BYTES];
extern const uint16_t model_latent_labels[MODEL_LATENTS];
extern const uint8_t model_images[MODEL_IMAGES][MODEL_IMAGE_BYTES];
extern const uint16_t model_image_labels[MODEL_IMAGES];
extern const uint8_t model_tests[MODEL_TESTS][MODEL_IMAGE_BYTES];
extern const uint16_t model_test_labels[MODEL_TESTS];

/* The options that the arena was planned for. */
everbit_status model_options(everbit_options *options, const everbit_program *program);

#endif
"""


def source(model: Model) -> Iterator[str]:
    """The lines of model.c."""
    yield '#include "model.h"'
    yield ""
    yield "#include <stddef.h>"
    yield ""
    yield '#define IN_FLASH(alignment) __attribute__((aligned(alignment), section(".model")))'
    yield ""
    yield "const uint64_t model_program[] IN_FLASH(EVERBIT_ALIGNMENT) = {"
    yield from words_of(model.program)
    yield "};"
    yield ""
    yield f"const char *const model_names[MODEL_CLASSES] = {{{', '.join(map(text_of, model.names))}}};"
    for name, plural, (rows, labels), row in (
        ("latent", "LATENTS", model.latents, "LATENT"),
        ("image", "IMAGES", model.images, "IMAGE"),
        ("test", "TESTS", model.tests, "IMAGE"),
    ):
        yield ""
        yield f"const uint8_t model_{name}s[MODEL_{plural}][MODEL_{row}_BYTES] IN_FLASH(8) = {{"
        yield from rows_of(rows)
        yield "};"
        yield f"const uint16_t model_{name}_labels[MODEL_{plural}] = {numbers_of(labels)};"
    yield ""
    yield from _options(model.options)


def _options(options: dict[str, object]) -> Iterator[str]:
    values: dict[str, object] = {name: int(options[name]) for name in OPTIONS}  # type: ignore[call-overload]
    values |= {
        "binary_bits": options["q_bin"],
        "other_bits": options["q_nonbin"],
        "head": "EVERBIT_CWR" if options["cwr"] else "EVERBIT_PLAIN",
        "threads": 1,
        "seed": f"UINT64_C({options['seed']})",
    }
    rates: list[tuple[int, int]] = options["learning_rates"]  # type: ignore[assignment]
    yield "everbit_status model_options(everbit_options *options, const everbit_program *program) {"
    yield "  everbit_status status = everbit_options_init(options, sizeof *options, program);"
    yield from (f"  options->{name} = {value};" for name, value in values.items())
    for kind, (mantissa, exponent) in zip(PARAMETER_KINDS, rates, strict=True):
        yield f"  options->rates[EVERBIT_{kind.upper()}] = (everbit_rate){{{mantissa}, {exponent}}};"
    yield "  return status;"
    yield "}"
