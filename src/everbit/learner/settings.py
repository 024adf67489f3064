"""What a learner is told before it starts: strategy, memory, batches, learning rates."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import Any, SupportsFloat

from everbit.compile.operations import PARAMETER_KINDS
from everbit.errors import ConfigurationError
from everbit.quantize.widths import Widths
from everbit.whole_number import MOST_SEED, whole_number


@dataclass(frozen=True)
class Strategy:
    """How a learner treats its head, its past and its body (docs/method.md 1.1 to 1.3).

    learning_rates: for the mean gradient of a mini-batch, by kind of parameter; chosen on a class order that no result
    uses (docs/experiments.md).
    """

    cwr: bool
    replay: bool
    train_body: bool
    learning_rates: dict[str, float]


BODY_RATES = {"binary": 0.03, "norm": 0.03, "bias": 0.03, "weight": 0.03}
JOINT_RATES = {"head": 0.03, "binary": 0.01, "norm": 0.01, "bias": 0.01, "weight": 0.01}

STRATEGIES = {
    "naive": Strategy(cwr=False, replay=False, train_body=True, learning_rates={"head": 0.1, **BODY_RATES}),
    "cwr": Strategy(cwr=True, replay=False, train_body=False, learning_rates={"head": 0.003, **BODY_RATES}),
    "lr": Strategy(cwr=True, replay=True, train_body=True, learning_rates={"head": 0.1, **BODY_RATES}),
    "joint": Strategy(cwr=False, replay=False, train_body=True, learning_rates=JOINT_RATES),
}
"""naive: fine-tuning. cwr: CWR* on a frozen body, V24's comparison. lr: latent replay + CWR*, everbit's own. joint: as
naive, at the rates for one experience that holds all images."""


PRESETS: dict[str, dict[str, Any]] = {
    "v24": {},
    "accurate": {"epochs": 20, "shared_replay": True},
    "accurate_2bit": {"epochs": 20, "shared_replay": True, "replay_per_class": 15},
}
"""Options that go together. v24: what the paper names. accurate: the highest final accuracy found at the same replay
memory, for four times the training. accurate_2bit: for models with latents of 2 bits, half as many in the same memory.
Both were chosen on class orders that no result uses (docs/experiments.md)."""

MOST_SLOTS = 2**28
"""Patterns that a replay memory can hold."""

ROUNDINGS = ("nearest", "stochastic")
"""nearest: updates below half a step vanish. stochastic: up or down by chance, right on average, for narrow widths."""


@dataclass(frozen=True)
class Settings:
    """Options of a learner; the defaults are those of V24 where it names them.

    strategy: a key of STRATEGIES. classes: most classes it can ever learn, beside those that its model knows already.
    epochs: passes over the images of an experience. replay_per_class: latents kept of one class at most.
    shared_replay: the classes seen so far share all places, replay_per_class times classes, evenly, so that early ones
    keep more until others come. memory: bytes the engine's arena may take on one thread (Learner.memory_use: all that
    it works in; the model and, while it learns, a copy of the state come on top), also as "16MB", None for no limit;
    with a limit the replay memory gets what the rest leaves, shared evenly by the classes. experience_images: with a
    limit, most images of one experience.
    batch_new : batch_replayed: patterns of a mini-batch. learning_rates: by kind of parameter, the strategy's where
    none is given. count_replayed: CWR* counts replayed patterns as patterns of the experience. rounding: of
    the updates, one of ROUNDINGS; float learners have no use for it. seed: of every shuffle and draw; the same seed
    gives the same bits.
    """

    strategy: str = "lr"
    classes: int = 50
    epochs: int = 5
    replay_per_class: int = 30
    shared_replay: bool = False
    memory: int | None = None
    experience_images: int = 256
    batch_new: int = 16
    batch_replayed: int = 64
    learning_rates: dict[str, float] = field(default_factory=dict)
    count_replayed: bool = True
    rounding: str = "nearest"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ConfigurationError(f"unknown strategy {self.strategy!r}: choose one of {', '.join(STRATEGIES)}")
        for name, least, most in (
            ("classes", 1, 65534),
            ("epochs", 1, 2**16),
            ("replay_per_class", 1, 2**20),
            ("experience_images", 1, 2**24),
            ("batch_new", 1, 4096),
            ("batch_replayed", 0, 4096),
            ("seed", 0, MOST_SEED),
        ):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), least, most))
        if self.rounding not in ROUNDINGS:
            raise ConfigurationError(f"unknown rounding {self.rounding!r}: choose one of {', '.join(ROUNDINGS)}")
        object.__setattr__(self, "memory", parse_bytes(self.memory))
        object.__setattr__(self, "learning_rates", _learning_rates(self.learning_rates, self.rule))
        for name in ("count_replayed", "shared_replay"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigurationError(f"{name} is {getattr(self, name)!r}: choose True or False")

    @property
    def rule(self) -> Strategy:
        """The strategy's switches."""
        return STRATEGIES[self.strategy]

    @property
    def replay_slots(self) -> int:
        """Patterns that the replay memory holds where no limit of memory decides."""
        slots = self.replay_per_class * self.classes if self.rule.replay else 0
        return whole_number("replay_per_class times classes", slots, 0, MOST_SLOTS)

    @classmethod
    def preset(cls, name: str, **options: Any) -> Settings:
        """Those of PRESETS, and options that add to them or take their place. Raises ConfigurationError."""
        return cls(**{**preset_options(name), **options})

    def epochs_or(self, epochs: int | None) -> int:
        """Those of one experience: the settings', unless others are asked for. Raises ConfigurationError."""
        return self.epochs if epochs is None else whole_number("epochs", epochs, 1, 2**16)

    def with_seed(self, seed: int) -> Settings:
        """The same settings with another seed."""
        return replace(self, seed=seed)


def preset_options(name: str) -> dict[str, Any]:
    """What a preset sets. Raises ConfigurationError for an unknown name."""
    if name not in PRESETS:
        raise ConfigurationError(f"unknown preset {name!r}: choose one of {', '.join(PRESETS)}")
    return PRESETS[name]


def refuse_memory_limit(settings: Settings, learner: str) -> None:
    """Raises ConfigurationError where there is a limit of memory: only the engine plans what it takes."""
    if settings.memory is not None:
        raise ConfigurationError(f"{learner} plans no memory: leave memory out and set replay_per_class")


def _learning_rates(rates: object, strategy: Strategy) -> dict[str, float]:
    """The learning rate of every kind of parameter, the strategy's where none is given."""
    if not isinstance(rates, dict):
        raise ConfigurationError(f"learning_rates are {rates!r}: give a dict, such as {strategy.learning_rates}")
    chosen = dict(strategy.learning_rates)
    for kind, rate in rates.items():
        if kind not in chosen:
            raise ConfigurationError(f"no parameter is of kind {kind!r}: kinds are {', '.join(PARAMETER_KINDS)}")
        if not isinstance(rate, SupportsFloat) or not 0 <= float(rate) < 2.0**20:
            raise ConfigurationError(f"the learning rate of {kind} is {rate!r}: choose a number from 0 to 2^20")
        chosen[kind] = float(rate)
    return chosen


_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def parse_bytes(memory: str | int | None) -> int | None:
    """Bytes of "2MB", "512KiB", 2000000 or None. MB are 10^6, MiB 2^20 bytes.

    Raises ConfigurationError for anything else.
    """
    if memory is None:
        return None
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]*)\s*", str(memory))
    size = float(match[1]) * _UNITS.get(match[2].upper(), 0) if match else 0.0
    if not 1 <= size < math.inf:
        raise ConfigurationError(f"memory {memory!r} is no size: write a number with a unit, such as 2MB or 512KiB")
    return int(size)


def parse_batch(text: str) -> tuple[int, int]:
    """The two numbers of NEW:REPLAYED. Raises ConfigurationError for anything else."""
    parts = text.split(":")
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        raise ConfigurationError(f"batch {text!r} is no pair of numbers: write NEW:REPLAYED, such as 4:12")
    return int(parts[0]), int(parts[1])


def program_widths(q_f: int, latent: int, widths: Widths | str | None) -> Widths:
    """The widths a learner runs a program at: the program fixes q_f and the latent, the caller may choose the rest.

    Raises ConfigurationError where the caller asks for widths the program was not compiled for.
    """
    if widths is None:
        return Widths(q_f=q_f, q_nonbin=max(q_f, Widths.q_nonbin), latent=latent)
    chosen = Widths.parse(widths) if isinstance(widths, str) else widths
    if (chosen.q_f, chosen.latent) != (q_f, latent):
        raise ConfigurationError(
            f"bit widths {chosen} do not fit the model, compiled for {q_f}-bit activations and {latent}-bit latents: "
            f"compile it again with --bits {chosen}, or ask for {q_f},{chosen.q_bin},{chosen.q_nonbin},{latent}"
        )
    return chosen
