"""What decides the numbers of an experiment, and the names its parts go by."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from everbit.compile.program import Program
from everbit.data.scenarios import SCENARIOS
from everbit.errors import ConfigurationError
from everbit.learner.cumulative import CumulativeLearner
from everbit.learner.learner import Learner
from everbit.learner.nearest_mean import NearestMeanLearner
from everbit.learner.protocol import ContinualLearner
from everbit.learner.settings import Settings
from everbit.quantize.widths import Widths
from everbit.zoo.cuts import DEFAULT_CUTS


@dataclass(frozen=True)
class LearnerKind:
    """A strategy (everbit.learner.settings.STRATEGIES), and what learns by it on the engine."""

    strategy: str
    learner: type[Learner] | type[CumulativeLearner] | type[NearestMeanLearner] = Learner

    def start(self, program: Program, settings: Settings, widths: Widths) -> ContinualLearner:
        """A new learner. Raises ConfigurationError where the program was compiled for other widths."""
        return self.learner(program, settings, widths)

    def load(self, path: Path) -> ContinualLearner:
        """A saved learner. Raises FormatError for a file that is none."""
        return self.learner.load(path)


@dataclass(frozen=True)
class FloatKind:
    """A strategy in PyTorch; latent: a key of FloatLearner's LATENTS."""

    strategy: str
    latent: str

    def start(self, program: Program, settings: Settings, widths: Widths) -> ContinualLearner:
        """A new learner."""
        from everbit.learner.float_learner import FloatLearner

        return FloatLearner(program, settings, latent=self.latent)

    def load(self, path: Path) -> ContinualLearner:
        """A saved learner. Raises FormatError for a file that is none."""
        from everbit.learner.float_learner import FloatLearner

        return FloatLearner.load(path)


LEARNERS: dict[str, LearnerKind | FloatKind] = {
    "naive": LearnerKind("naive"),
    "cwr": LearnerKind("cwr"),
    "lr": LearnerKind("lr"),
    "cumulative": LearnerKind("joint", CumulativeLearner),
    "ncm": LearnerKind("cwr", NearestMeanLearner),
    "float": FloatKind("lr", "engine"),
    "float_cwr": FloatKind("cwr", "engine"),
    "float_network": FloatKind("lr", "program"),
    "float_latents": FloatKind("lr", "float"),
}
"""naive, cwr, lr: by the engine. cumulative: the engine on all images so far, anew each time, the upper bound. ncm:
nearest class mean on the engine's latents. float, float_cwr: lr and cwr in float32 on the engine's latents.
float_network: lr in float32, frozen part included, on latents of the same bits. float_latents: with float32 latents
too, AR1* without its penalty on the weights."""


@dataclass(frozen=True)
class Configuration:
    """One experiment but for its seeds; what is None follows the data set, or takes all images.

    scenario: a key of everbit.data.scenarios.SCENARIOS. learner: a key of LEARNERS. model: path of an .everbit file or
    a name of the zoo; cut, width, image_size (pixels a side): of a network of the zoo. images_per_class,
    test_images_per_class: at most, of the training images of the whole stream and of the test images. class_order: of
    new classes, all class numbers, for every seed; None draws one by the seed. augment: crop and flip each training
    image once, as it arrives. learning_rates: by kind of parameter, those that differ from the strategy's. rounding: of
    the updates.
    """

    scenario: str
    data: str
    model: str
    learner: str = "lr"
    bits: Widths = field(default_factory=Widths)
    cut: str | None = None
    width: float = 0.5
    image_size: int | None = None
    images_per_class: int | None = None
    test_images_per_class: int | None = None
    experiences: int | None = None
    class_order: tuple[int, ...] | None = None
    epochs: int = 5
    replay_per_class: int = 30
    shared_replay: bool = False
    count_replayed: bool = True
    learning_rates: dict[str, float] = field(default_factory=dict)
    rounding: str = "nearest"
    augment: bool = False

    def __post_init__(self) -> None:
        for name, table in (("scenario", SCENARIOS), ("learner", LEARNERS)):
            if getattr(self, name) not in table:
                raise ConfigurationError(f"unknown {name} {getattr(self, name)!r}: choose one of {', '.join(table)}")
        for name in ("images_per_class", "test_images_per_class", "experiences"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise ConfigurationError(f"{name} is {number}: choose 1 or more")
        self.settings(1, 1, 0)

    @property
    def kind(self) -> LearnerKind | FloatKind:
        """What learns."""
        return LEARNERS[self.learner]

    def described(self) -> dict[str, Any]:
        """JSON of all options, defaults included."""
        rates = self.settings(1, 1, 0).learning_rates
        cut = self.cut or DEFAULT_CUTS.get(self.model)
        return {**asdict(self), "bits": str(self.bits), "cut": cut, "learning_rates": rates}

    def settings(self, classes: int, experience_images: int, seed: int) -> Settings:
        """The learner's options for a stream of so many classes and images in its largest experience."""
        return Settings(
            strategy=self.kind.strategy,
            classes=classes,
            epochs=self.epochs,
            replay_per_class=self.replay_per_class,
            shared_replay=self.shared_replay,
            experience_images=experience_images,
            learning_rates=self.learning_rates,
            count_replayed=self.count_replayed,
            rounding=self.rounding,
            seed=seed,
        )
