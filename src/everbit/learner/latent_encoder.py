"""The engine's frozen part alone, for learners that do the rest themselves."""

from __future__ import annotations

from dataclasses import replace

from everbit.compile.program import Program
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings
from everbit.quantize.widths import Widths


def latent_encoder(program: Program, widths: Widths | str | None = None) -> Learner:
    """A learner for its `latents` alone: it holds as little else as one can, and never learns.

    Raises ConfigurationError where the program was compiled for other widths.
    """
    bare = replace(program, head=replace(program.head, classifier=None))
    smallest = Settings(strategy="cwr", classes=1, experience_images=1, batch_new=1, batch_replayed=0)
    return Learner(bare, smallest, widths)
