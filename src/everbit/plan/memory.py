"""The memory of a learner on a device, planned by the engine itself: every byte has a purpose, and none is estimated.

It is the plan of `everbit export c`: kernels that every processor can run, one thread.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from everbit._engine import planned_blocks, planned_memory
from everbit.compile.image import program_image
from everbit.compile.program import Program
from everbit.learner.engine_options import engine_options
from everbit.learner.settings import Settings
from everbit.quantize.widths import Widths

ALIGNMENT = 64
"""Every block begins at a multiple of so many bytes."""

ACTIVATIONS, GRADIENTS, SAVED, SCRATCH = "activations", "gradients", "kept for backward", "scratch"
WORK = (ACTIVATIONS, GRADIENTS, SAVED, SCRATCH)
"""Purposes of the memory that layers share, in turns."""

LEARNED, REPLAY, EXPERIENCE, TABLES, UNUSED = "weights that learn", "replay memory", "latents", "tables", "unused then"
PURPOSES = (LEARNED, REPLAY, EXPERIENCE, TABLES, *WORK, UNUSED)
"""weights that learn: with the head's two copies. replay memory: latents, labels, counters. latents: of the experience
that is being learned. tables: pointers, sums of weights, the head's rows of an experience. unused then: shared memory
that is empty at the fullest moment."""


@dataclass(frozen=True)
class Block:
    """A piece of the shared memory: what it is for, the layer it belongs to, where it lies and when it lives.

    first, last: moments, both included: layer i runs forward at moment i, the head at L, the number of layers, and
    layer i backward at 2 L - i. bytes: without what aligns them.
    """

    purpose: str
    name: str
    bytes: int
    first: int
    last: int
    offset: int

    @property
    def room(self) -> int:
        """Its bytes as they are placed."""
        return -(-self.bytes // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class LearnerMemory:
    """Bytes of a learner.

    program: constants, in flash or wherever the program lies. by_purpose: of RAM, in the order of PURPOSES; their sum
    is the arena. shared: of the arena, what layers share in turns; blocks: what lies in it, by moments 0 .. 2 *
    `layers`. moment: the fullest. gradients: tensors of the program that have a gradient.
    """

    program: int
    by_purpose: dict[str, int]
    shared: int
    blocks: tuple[Block, ...]
    layers: int
    latent: int
    moment: int
    gradients: frozenset[int]

    @property
    def arena(self) -> int:
        """Bytes of RAM that the learner takes, all of them."""
        return sum(self.by_purpose.values())


def learner_memory(program: Program, settings: Settings, widths: Widths, address_bytes: int) -> LearnerMemory:
    """Plans a learner with room for `settings.experience_images` where addresses have 4 or 8 bytes.

    Raises ValueError where the engine refuses such a learner.
    """
    image = program_image(program)
    classes = len(program.head.labels) + settings.classes
    options = engine_options(settings, widths, classes, settings.replay_slots, settings.experience_images)
    options["threads"] = 1
    planned = planned_memory(image, options, address_bytes)
    placed = planned_blocks(image, options, address_bytes)
    tensors, layers = len(program.tensors), len(program.layers)
    makers = {layer.output: layer.name or layer.kind for layer in program.layers}
    named = [
        *((ACTIVATIONS, makers[index]) for index in range(tensors)),
        *((GRADIENTS, makers[index]) for index in range(tensors)),
        *((purpose, layer.name or layer.kind) for purpose in (SAVED, SCRATCH, SCRATCH) for layer in program.layers),
        (SCRATCH, "head"),
    ]
    blocks = [Block(*name, *block) for name, block in zip(named, placed, strict=True)]
    moment, work = _fullest(blocks, 2 * layers)
    by_purpose = {
        LEARNED: planned["state"] - planned["replay"],
        REPLAY: planned["replay"],
        EXPERIENCE: planned["experience"],
        TABLES: planned["fixed"] + planned["handle"],
        **{purpose: work[purpose] for purpose in WORK},
        UNUSED: planned["shared"] - work.total(),
    }
    return LearnerMemory(
        program=len(image),
        by_purpose=by_purpose,
        shared=planned["shared"],
        blocks=tuple(block for block in blocks if block.bytes),
        layers=layers,
        latent=program.latent_index,
        moment=moment,
        gradients=frozenset(index for index in range(tensors) if placed[tensors + index][0]),
    )


def _fullest(blocks: list[Block], end: int) -> tuple[int, Counter[str]]:
    """The moment when most bytes live, and what they are for then."""
    alive = [Counter[str]() for _ in range(end + 1)]
    for block in blocks:
        for moment in range(block.first, block.last + 1):
            alive[moment][block.purpose] += block.room
    moment = max(range(end + 1), key=lambda at: alive[at].total())
    return moment, alive[moment]
