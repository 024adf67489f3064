"""The C API computes what Python's learner does: states, logits, predictions."""

from __future__ import annotations

import ctypes
from functools import partial

import numpy as np
import pytest

from c_api.conftest import FIXTURES, image_of
from c_api.library import CLearner, Rate
from everbit import Learner, Settings
from everbit._engine import digest
from everbit.compile.operations import PARAMETER_KINDS
from everbit.formats.model_file import load_program
from everbit.quantize.scale import scale_of
from everbit.zoo.packaged import packaged_model
from golden.draws import Digest

CLASSES = 3
BASE = {
    "classes": CLASSES,
    "replay_per_class": 4,
    "batch_new": 3,
    "batch_replayed": 5,
    "experience_images": 9,
    "seed": 4,
}
SETTINGS = {
    "latent replay": {},
    "naive": {"strategy": "naive"},
    "head alone": {"strategy": "cwr"},
    "own patterns alone": {"count_replayed": False},
    "stochastic": {"rounding": "stochastic", "seed": 2**64 - 1},
    "rates": {"learning_rates": {"head": 0.7, "binary": 1e-4, "norm": 0.0, "bias": 2.0, "weight": 0.001}},
}
PROGRAMS = sorted(path.stem for path in FIXTURES.glob("*.everbit"))


def options_of(learner: Learner) -> dict[str, object]:
    """The C API's options for a learner of Python's."""
    told = learner._options(learner._replay_slots, learner._experience_images)
    names = ("classes", "replay_slots", "replay_per_class", "experience_patterns", "batch_new", "batch_replayed")
    return {
        **{name: told[name] for name in (*names, "threads", "seed")},
        "binary_bits": told["q_bin"],
        "other_bits": told["q_nonbin"],
        "head": int(not told["cwr"]),
        **{name: int(told[name]) for name in ("train_body", "count_replayed", "stochastic_rounding")},
        "rates": (Rate * len(PARAMETER_KINDS))(*(Rate(*rate) for rate in told["learning_rates"])),
    }


def record_step(steps: list[float], _step: int, _steps: int, right: float) -> None:
    steps.append(right)


def run_both(
    library: ctypes.CDLL, name: str, settings: dict[str, object], widths: str | None = None, size: int = 7
) -> tuple[Learner, CLearner]:
    """Two experiences in both; the digests after each are compared here."""
    path = FIXTURES / f"{name}.everbit"
    model = path if path.is_file() else packaged_model(name)
    python = Learner.open(model, settings=Settings(**{**BASE, **settings}), widths=widths)
    c = CLearner(library, image_of(name), **options_of(python))
    known = len(python.classes_)
    rng = np.random.default_rng(len(name))
    for classes in ((0, 1), (2, 0)):
        images = rng.integers(0, 256, (size, *python.image_shape), dtype=np.uint8)
        labels = [known + classes[i % 2] for i in range(size)]
        steps: list[float] = []
        record = partial(record_step, steps)
        python.partial_fit(images, [f"class {label}" for label in labels], epochs=2, progress=record)
        c.observe(images, labels)
        assert [right / patterns for right, patterns in c.train(2)] == steps
        assert c.digest == digest(python.state)
    return python, c


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_every_setting_leaves_the_same_state(library: ctypes.CDLL, settings: dict[str, object]) -> None:
    run_both(library, "plain", settings)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_leaves_the_same_state_and_predicts_the_same(library: ctypes.CDLL, name: str) -> None:
    python, c = run_both(library, name, {})
    images = np.random.default_rng(0).integers(0, 256, (3, *python.image_shape), dtype=np.uint8)
    probabilities = python.predict_proba(images)
    for image, logits, expected, label in zip(
        images, python.logits(images), probabilities, python.predict(images), strict=True
    ):
        predicted, own, own_probabilities = c.predict(image)
        by_latent = c.predict(c.encode(image), latent=True)
        assert all(np.array_equal(a, b) for a, b in zip(by_latent, (predicted, own, own_probabilities), strict=True))
        known = len(logits)
        assert own[:known].tolist() == logits.tolist()
        assert (own[known:] == np.iinfo(np.int32).min).all() and (own_probabilities[known:] == 0).all()
        assert python.classes_[predicted] == label
        assert np.abs(own_probabilities[:known] / 2**30 - expected).max() < 1e-5


@pytest.mark.parametrize("widths", ["8,1,8,1", "8,4,16,1", "8,32,32,1"])
def test_every_width_leaves_the_same_state(library: ctypes.CDLL, widths: str) -> None:
    run_both(library, "plain", {}, widths)


def test_a_packaged_model_leaves_the_same_state(library: ctypes.CDLL) -> None:
    run_both(library, "birealnet18", {"experience_images": 32}, size=32)


def test_the_defaults_are_those_of_settings(library: ctypes.CDLL) -> None:
    for name in ("plain", "wide", "classes"):
        python = Learner.open(FIXTURES / f"{name}.everbit")
        options = CLearner(library, image_of(name)).options
        for field, value in options_of(python).items():
            mine = getattr(options, field)
            if field == "rates":
                mine, value = ([(rate.mantissa, rate.exponent) for rate in rates] for rates in (mine, value))
            assert mine == value, field


@pytest.mark.parametrize(
    "ratio", [(0, 5), (1, 1), (3, 100), (1, 3), (2**32 - 1, 1), (1, 2**32 - 1), (5, 4), (3, 2**31)]
)
def test_a_ratio_is_the_nearest_rate(library: ctypes.CDLL, ratio: tuple[int, int]) -> None:
    rate = library.everbit_ratio(*ratio)
    assert (rate.mantissa, rate.exponent) == scale_of(ratio[0] / ratio[1])


@pytest.mark.parametrize("name", ["plain", "wide", "layer_ste_sign"])
def test_latents_from_elsewhere_teach_the_same(library: ctypes.CDLL, name: str) -> None:
    program = load_program(FIXTURES / f"{name}.everbit")
    options = {"classes": 2, "replay_slots": 6, "experience_patterns": 8}
    by_image, by_latent = (CLearner(library, image_of(name), **options) for _ in range(2))
    images = np.random.default_rng(1).integers(0, 256, (8, *program.input_shape), dtype=np.uint8)
    labels = [0, 1] * 4
    by_image.observe(images, labels)
    latents = [by_image.encode(image) for image in images]
    spare = 8 * program.latent_bytes - int(np.prod(program.latent_shape)) * program.latent_bits
    for latent in latents:
        latent[-1] |= 0xFF << (8 - spare) & 0xFF  # bits behind the last code, which nobody may heed
    by_latent.observe_latents(latents, labels)
    by_image.train(3)
    by_latent.train(3)
    assert by_image.digest == by_latent.digest


def test_the_digest_is_the_documented_one(library: ctypes.CDLL) -> None:
    python, c = run_both(library, "plain", {})
    reference = Digest()
    reference.add(list(python.state))
    assert c.digest == reference.value
