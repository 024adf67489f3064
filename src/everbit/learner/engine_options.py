"""What the engine is told of a learner: its options by name, as the C API has them."""

from __future__ import annotations

from everbit import engine
from everbit.compile.operations import PARAMETER_KINDS
from everbit.learner.settings import Settings
from everbit.quantize.scale import scale_of
from everbit.quantize.widths import Widths


def sampler_options(settings: Settings, classes: int, replay_slots: int, experience_images: int) -> dict[str, object]:
    """What decides which patterns are learned when, as the engine's sampler takes it.

    classes: those that the model knows and those that it may learn. replay_slots: patterns of the replay memory.
    experience_images: most images of one experience.
    """
    shared = settings.shared_replay or settings.memory is not None
    return {
        "classes": classes,
        "replay_slots": replay_slots,
        "replay_per_class": max(replay_slots, 1) if shared else settings.replay_per_class,
        "experience_patterns": experience_images,
        "batch_new": settings.batch_new,
        "batch_replayed": settings.batch_replayed if settings.rule.replay else 0,
        "count_replayed": settings.count_replayed,
        "seed": settings.seed,
    }


def engine_options(
    settings: Settings, widths: Widths, classes: int, replay_slots: int, experience_images: int
) -> dict[str, object]:
    """All of a learner, the rest of it as `sampler_options`. Threads are as many as `engine.threads()` says."""
    rule = settings.rule
    return {
        **sampler_options(settings, classes, replay_slots, experience_images),
        "q_bin": widths.q_bin,
        "q_nonbin": widths.q_nonbin,
        "cwr": rule.cwr,
        "train_body": rule.train_body,
        "stochastic_rounding": settings.rounding == "stochastic",
        "threads": engine.threads(),
        "learning_rates": [scale_of(settings.learning_rates[kind]) for kind in PARAMETER_KINDS],
    }
