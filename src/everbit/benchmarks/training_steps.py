"""A learner in the middle of an experience, one mini-batch at a time."""

from __future__ import annotations

from collections.abc import Callable

from everbit import engine
from everbit.benchmarks.random_images import cyclic_labels, random_images
from everbit.compile.image import program_image
from everbit.compile.program import Program
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings
from everbit.quantize.widths import Widths

WIDTHS = {"q16": (16, 16), "q8": (8, 8), "qbin1": (1, 16)}
"""q_bin and q_nonbin of the learners that are measured."""

NEW, REPLAYED = 16, 64
BATCHES = 4  # in an epoch
ENDLESS = 2**16  # epochs


def start_learner(
    program: Program, widths: str = "q16", *, classes: int = 10, images: int = NEW + REPLAYED, threads: int = 1
) -> engine.NativeLearner:
    """The engine's learner, mini-batches of 16 new and 64 replayed patterns.

    widths: a key of WIDTHS. images: most of one experience.
    """
    settings = Settings(classes=classes, batch_new=NEW, batch_replayed=REPLAYED)
    learner = Learner(program, settings, Widths(program.q_f, *WIDTHS[widths], program.latent_bits))
    slots = classes * settings.replay_per_class
    return engine.NativeLearner(program_image(program), {**learner._options(slots, images), "threads": threads})


def learn_experience(learner: engine.NativeLearner, count: int, classes: int, first: int = 0) -> None:
    """Learns `count` images of noise, one epoch; their labels go on from `first`."""
    learner.add(random_images(count), cyclic_labels(count, classes, first))
    for _ in range(learner.begin_training(1)):
        learner.train_step()
    learner.end_experience()


def training_step(learner: engine.NativeLearner, classes: int = 10) -> Callable[[], object]:
    """One call is one full step on 16 new and 64 replayed latents: decode, forward, head, backward, update.

    The learner learns 80 images first, so that there is something to replay.
    """
    learn_experience(learner, NEW + REPLAYED, classes)
    count = BATCHES * NEW
    learner.add(random_images(count), cyclic_labels(count, classes))
    learner.begin_training(ENDLESS)
    return learner.train_step
