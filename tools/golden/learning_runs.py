"""Whole learning runs: three experiences with replay and CWR*, in the reference and in the scalar engine."""

from __future__ import annotations

from dataclasses import dataclass

from everbit import engine
from everbit.compile.image import program_image
from everbit.compile.operations import PARAMETER_KINDS
from everbit.compile.program import Program
from golden.draws import Digest, Draws, program_numbers
from golden.network_vectors import RATES, add_parameters, draw_images
from golden.programs import residual_program
from reference.fixed_point import int64
from reference.known_classes import with_known_classes
from reference.learner import ReferenceLearner, ReferenceOptions

CLASSES = 5
EPOCHS = 2
REPLAY_SLOTS = 11
REPLAY_PER_CLASS = 4
BATCH_NEW = 4
BATCH_REPLAYED = 6
EXPERIENCES = ((0, 0, 1, 1, 1, 0, 1, 0, 0), (2, 1, 2, 2, 2, 2, 1), (3, 4, 4, 0, 3, 3, 4, 2, 3, 4, 3, 4, 0))
EXPERIENCE_PATTERNS = max(map(len, EXPERIENCES))


@dataclass(frozen=True)
class LearningRun:
    """A program and the options of a learner; classes outgrow the replay memory, so that its quotas shrink."""

    name: str
    program: Program
    q_bin: int
    q_nonbin: int
    count_replayed: bool
    stochastic: bool
    seed: int

    def initializer(self, image: str) -> str:
        """The entry of the C++ table; image: the name of its array."""
        size = len(program_image(self.program))
        counted, stochastic = str(self.count_replayed).lower(), str(self.stochastic).lower()
        return (
            f'{{"{self.name}", {{{image}, {size}}}, {{{self.q_bin}, {self.q_nonbin}}}, {counted}, '
            f"{stochastic}, {self.seed}, {self.learned():#018x}, {self.state():#018x}}},"
        )

    @property
    def options(self) -> ReferenceOptions:
        return ReferenceOptions(
            classes=CLASSES,
            replay_slots=REPLAY_SLOTS,
            replay_per_class=REPLAY_PER_CLASS,
            batch_new=BATCH_NEW,
            batch_replayed=BATCH_REPLAYED,
            count_replayed=self.count_replayed,
            stochastic=self.stochastic,
            seed=self.seed,
        )

    def learned(self) -> int:
        """Digest of all that the reference learned, after each experience."""
        draws, digest = Draws(self.seed), Digest()
        learner = ReferenceLearner(self.program, self.options, RATES, (self.q_bin, self.q_nonbin))
        for labels in EXPERIENCES:
            learner.learn(draw_images(draws, self.program, len(labels)), list(labels), EPOCHS)
            add_parameters(digest, learner.network)
            digest.add(learner.network.cw)
            digest.add(learner.network.past)
            for pattern, label in zip(*learner.replay(), strict=True):
                digest.add(label)
                digest.add(pattern)
            digest.add([learner.memory.seen.get(j, 0) for j in range(CLASSES)])
            digest.add(learner.logits(draw_images(draws, self.program, 1)))
        return digest.value

    def state(self) -> int:
        """Digest of the bytes of a scalar engine's state after the same run."""
        before = engine.active_isa()
        engine.select_isa("scalar")
        try:
            return self._engine_state()
        finally:
            engine.select_isa(before)

    def _engine_state(self) -> int:
        draws, digest, options = Draws(self.seed), Digest(), self.options
        learner = engine.NativeLearner(
            program_image(self.program),
            {
                "q_bin": self.q_bin,
                "q_nonbin": self.q_nonbin,
                "classes": options.classes,
                "replay_slots": options.replay_slots,
                "replay_per_class": options.replay_per_class,
                "experience_patterns": EXPERIENCE_PATTERNS,
                "batch_new": options.batch_new,
                "batch_replayed": options.batch_replayed,
                "cwr": True,
                "train_body": options.train_body,
                "threads": 1,
                "count_replayed": options.count_replayed,
                "stochastic_rounding": options.stochastic,
                "seed": options.seed,
                "learning_rates": [tuple(RATES[kind]) for kind in PARAMETER_KINDS],
            },
        )
        for labels in EXPERIENCES:
            learner.add(draw_images(draws, self.program, len(labels)), int64(labels).astype("int32"))
            for _ in range(learner.begin_training(EPOCHS)):
                learner.train_step()
            learner.end_experience()
            learner.logits(draw_images(draws, self.program, 1))
        digest.add(list(learner.state()))
        return digest.value


def learning_runs() -> list[LearningRun]:
    """Bi-Real-like networks at narrow, ordinary and the widest widths; names: q_f, q_bin, q_nonbin, latent bits."""
    return [
        LearningRun("three experiences 8,16,16,1", residual_program(1, 8, 1, 9), 16, 16, True, False, 11),
        LearningRun("three experiences 16,4,32,4", residual_program(2, 16, 4, 5), 4, 32, False, False, 12),
        LearningRun("three experiences 8,8,8,2, stochastic", residual_program(3, 8, 2, 3), 8, 8, True, True, 13),
        LearningRun(
            "three experiences 32,32,32,16, stochastic", residual_program(4, 32, 16, 3), 32, 32, True, True, 14
        ),
        LearningRun(
            "known classes 8,8,16,1",
            with_known_classes(residual_program(5, 8, 1, 3), program_numbers(5), (0, 1, 2)),
            8,
            16,
            True,
            False,
            15,
        ),
    ]
