"""Mutates sound program images at random and learns with those the engine accepts.

python mutate_images.py SEED COUNT prints how many were refused and how many learned; it ends with an error where the
engine does anything else. It runs in a process of its own (test_mutations.py): a crash ends that, not the tests.
"""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np

from attacks.hostile_program import every_layer
from attacks.image_fields import ImageFields
from everbit import engine
from everbit.compile.image import program_image
from everbit.compile.operations import PARAMETER_KINDS
from reference.known_classes import with_known_classes
from reference.random_program import LATENT_BITS, SINGLE_LAYERS, random_program, single_layer_program

MOST_ELEMENTS = 2**17  # of all tensors: larger ones only cost time
INTERESTING = (
    -(2**31),
    -(2**29),
    -(2**15),
    -64,
    -2,
    -1,
    0,
    1,
    2,
    3,
    4,
    8,
    16,
    31,
    32,
    63,
    64,
    65,
    127,
    255,
    2**13,
    2**15,
)
INTERESTING += (2**16, 2**26, 2**29, 2**30, 2**31 - 1)


def sound_images() -> list[bytes]:
    """One of every layer, and some networks."""
    rng = np.random.default_rng(0)
    small = {"q_f": 8, "height": 4, "width": 3, "channels": 3}
    single = [single_layer_program(kind, rng, **small) for kind in SINGLE_LAYERS]  # type: ignore[arg-type]
    networks = [random_program(rng, latent_bits=bits, blocks=2, **small) for bits in LATENT_BITS]  # type: ignore[arg-type]
    wide = [random_program(rng, latent_bits=bits, blocks=2, **{**small, "q_f": 32}) for bits in (1, 8)]  # type: ignore[arg-type]
    known = [with_known_classes(program, rng, ("a", "b")) for program in networks[:2]]
    return [program_image(program) for program in [*single, *networks, *wide, *known, every_layer(32)]]


def mutated(image: bytes, rng: np.random.Generator) -> bytes:
    """One to three changes: fields of the tables set, moved or swapped, or bytes of the arrays changed."""
    fields = ImageFields(image)
    names = list(fields.fields)
    for _ in range(int(rng.integers(1, 4))):
        name = names[int(rng.integers(len(names)))]
        match int(rng.integers(5)):
            case 0:
                fields[name] = int(rng.choice(INTERESTING))
            case 1:
                fields[name] = max(-(2**31), min(2**31 - 1, fields[name] + int(rng.integers(-2, 3))))
            case 2:
                fields[name] = fields[names[int(rng.integers(len(names)))]]
            case 3:
                fields.image[int(rng.integers(8, len(image)))] ^= 1 << int(rng.integers(8))
            case _:
                start = int(rng.integers(fields.table_bytes, len(image)))
                fields.image[start : start + 4] = rng.integers(
                    0, 256, len(fields.image[start : start + 4]), np.uint8
                ).tobytes()
    return bytes(fields.image)


def learn(image: bytes, rng: np.random.Generator) -> None:
    """Two experiences with random images, at random widths."""
    engine.check_program(image)
    fields = ImageFields(image)
    sides = ("height", "width", "channels")
    shapes = [[fields[f"tensor.{i}.{side}"] for side in sides] for i in range(fields["header.tensor_count"])]
    if np.prod(np.array(shapes, np.int64), axis=1).sum() > MOST_ELEMENTS:
        return
    options = {"q_bin": int(rng.choice([1, 4, 8, 16, 32])), "q_nonbin": int(rng.choice([16, 32])), "classes": 3}
    options |= {"replay_slots": 4, "replay_per_class": 2, "experience_patterns": 4, "batch_new": 2, "batch_replayed": 2}
    options |= {"cwr": bool(rng.integers(2)), "train_body": bool(rng.integers(4)), "count_replayed": True, "seed": 1}
    options |= {"stochastic_rounding": bool(rng.integers(2))}
    learner = engine.NativeLearner(image, options | {"learning_rates": [(2**30, 3)] * len(PARAMETER_KINDS)})
    for first in range(2):
        images = rng.integers(0, 256, (3, *shapes[fields["layer.0.output"]])).astype(np.uint8)
        learner.add(images, np.array([first, first + 1, first], np.int32))
        for _ in range(learner.begin_training(1)):
            learner.train_step()
        learner.end_experience()
    learner.logits(images)


def main(seed: int, count: int) -> None:
    images = sound_images()
    outcomes: Counter[str] = Counter()
    for trial in range(count):
        rng = np.random.default_rng([seed, trial])
        engine.select_isa(str(rng.choice(engine.available_isas())))
        image = mutated(images[trial % len(images)], rng)
        print(f"\rseed {seed} trial {trial} ", end="", file=sys.stderr, flush=True)
        try:
            learn(image, rng)
        except ValueError:
            outcomes["refused"] += 1
        else:
            outcomes["learned"] += 1
    print(outcomes["refused"], outcomes["learned"])


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
