"""What every learner must do, whatever computes it: the shared invariants, run over each implementation."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from everbit.compile.program import Program
from everbit.errors import ConfigurationError, FormatError, ImageError, LabelError, OutputError
from everbit.learner.cumulative import CumulativeLearner
from everbit.learner.float_learner import FloatLearner
from everbit.learner.learner import Learner
from everbit.learner.nearest_mean import NearestMeanLearner
from everbit.learner.settings import Settings
from reference.known_classes import with_known_classes
from reference.random_program import random_images, random_program

AnyLearner = Learner | FloatLearner | CumulativeLearner | NearestMeanLearner


@dataclass(frozen=True)
class Kind:
    """A learner, and what not every learner has.

    knows_classes: takes over those of the program. seeded: draws by the seed. passes: over the images as `epochs` says.
    """

    learner: type[Learner] | type[FloatLearner] | type[CumulativeLearner] | type[NearestMeanLearner]
    knows_classes: bool = True
    seeded: bool = True
    passes: bool = True


LEARNERS = {
    "engine": Kind(Learner),
    "float": Kind(FloatLearner),
    "cumulative": Kind(CumulativeLearner),
    "ncm": Kind(NearestMeanLearner, knows_classes=False, seeded=False, passes=False),
}
Start = Callable[..., AnyLearner]


@pytest.fixture(scope="module")
def program() -> Program:
    rng = np.random.default_rng(0)
    shape = {"height": 6, "width": 5, "channels": 9}
    return random_program(rng, latent_bits=2, blocks=2, downsample=False, pool_features=False, **shape)


@pytest.fixture(params=LEARNERS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return LEARNERS[request.param]


@pytest.fixture
def start(program: Program, kind: Kind) -> Start:
    """Makes a new learner of 6 classes, 4 latents each."""

    def make(**options: object) -> AnyLearner:
        settings = Settings(**{"classes": 6, "replay_per_class": 4, **options})  # type: ignore[arg-type]
        return kind.learner(program, settings)

    return make


@pytest.fixture
def images(program: Program) -> NDArray[np.uint8]:
    return random_images(np.random.default_rng(1), program, 24)


def labels(*classes: Hashable, count: int = 24) -> list[Hashable]:
    return [classes[index % len(classes)] for index in range(count)]


def test_classes_stand_in_the_order_of_their_first_sight(start: Start, images: NDArray[np.uint8]) -> None:
    learner = start()
    assert learner.classes_ == []
    learner.partial_fit(images, labels("mug", "ball"))
    learner.partial_fit(images, labels("ball", ("can", 2), 7))
    assert learner.classes_ == ["mug", "ball", ("can", 2), 7]
    learner.classes_.clear()
    assert len(learner.classes_) == 4


def test_latents_classify_as_their_images_do(start: Start, images: NDArray[np.uint8]) -> None:
    learner = start()
    before = learner.latents(images)
    with pytest.raises(ConfigurationError, match="knows no class yet"):
        learner.predict_latents(before)
    learner.partial_fit(images, labels("a", "b", "c"))
    np.testing.assert_array_equal(learner.latents(images), before)
    assert learner.predict_latents(before) == learner.predict(images)


def test_predictions_are_the_most_probable_classes(start: Start, images: NDArray[np.uint8]) -> None:
    learner = start().partial_fit(images, labels("a", "b", "c"))
    probabilities = learner.predict_proba(images)
    assert probabilities.shape == (24, 3)
    assert probabilities.dtype == np.float64
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert (probabilities >= 0).all()
    assert learner.predict(images) == [learner.classes_[index] for index in probabilities.argmax(axis=1)]


def test_predictions_do_not_depend_on_the_batch(start: Start, images: NDArray[np.uint8]) -> None:
    learner = start().partial_fit(images, labels(0, 1, 2))
    one_by_one = np.concatenate([learner.predict_proba(image) for image in images])
    np.testing.assert_allclose(learner.predict_proba(images), one_by_one, atol=1e-5)


def test_predicting_before_learning_is_an_error(start: Start, images: NDArray[np.uint8]) -> None:
    for ask in (start().predict, start().predict_proba):
        with pytest.raises(ConfigurationError, match="partial_fit"):
            ask(images)


@pytest.mark.parametrize("strategy", ["naive", "cwr", "lr"])
def test_new_classes_are_welcome_later(start: Start, images: NDArray[np.uint8], strategy: str) -> None:
    learner = start(strategy=strategy)
    learner.partial_fit(images, labels(0, 1))
    learner.partial_fit(images, labels(1, 2, 3))
    assert learner.predict_proba(images).shape == (24, 4)


def test_one_class_alone_is_learned(start: Start, images: NDArray[np.uint8]) -> None:
    learner = start().partial_fit(images, labels("only"))
    assert learner.predict(images) == ["only"] * 24
    np.testing.assert_array_equal(learner.predict_proba(images), np.ones((24, 1)))


def test_one_image_is_learned(start: Start, images: NDArray[np.uint8]) -> None:
    learner = start().partial_fit(images[0], ["first"])
    learner.partial_fit(images[1], ["second"])
    assert learner.classes_ == ["first", "second"]


def test_it_learns_what_it_is_shown(start: Start, program: Program) -> None:
    rng = np.random.default_rng(3)
    prototypes = rng.integers(0, 256, (3, *program.input_shape))
    images = np.clip(np.tile(prototypes, (8, 1, 1, 1)) + rng.integers(-9, 10, (24, 1, 1, 1)), 0, 255).astype(np.uint8)
    learner = start(learning_rates={"head": 0.01}).partial_fit(images, labels("x", "y", "z"), epochs=20)
    assert (
        np.mean([found == true for found, true in zip(learner.predict(images), labels("x", "y", "z"), strict=True)])
        > 0.9
    )


def test_a_loaded_learner_goes_on_as_if_never_stopped(
    start: Start, kind: Kind, images: NDArray[np.uint8], tmp_path: Path
) -> None:
    learner = start(seed=5)
    learner.partial_fit(images, labels("a", ("b", 1)), epochs=1)
    learner.save(tmp_path / "a.learner")
    other = kind.learner.load(tmp_path / "a.learner")
    assert (other.settings, other.memory_use) == (learner.settings, learner.memory_use)
    for each in (learner, other):
        each.partial_fit(images[::-1].copy(), labels(3, "a"), epochs=2)
        each.partial_fit(images, labels(4.5, "a"), epochs=1)
    assert other.classes_ == learner.classes_ == ["a", ("b", 1), 3, 4.5]
    np.testing.assert_array_equal(other.predict_proba(images), learner.predict_proba(images))
    learner.save(tmp_path / "b.learner")
    other.save(tmp_path / "c.learner")
    assert (tmp_path / "b.learner").read_bytes() == (tmp_path / "c.learner").read_bytes()


def test_an_unused_learner_can_be_saved(start: Start, kind: Kind, images: NDArray[np.uint8], tmp_path: Path) -> None:
    start().save(tmp_path / "new.learner")
    learner = kind.learner.load(tmp_path / "new.learner")
    assert learner.classes_ == []
    learner.partial_fit(images, labels(0, 1))


def test_an_unwritable_file_is_an_error(start: Start, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError):
        start().save(tmp_path / "folder")
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]


def test_a_file_that_is_none_is_named(start: Start, kind: Kind, images: NDArray[np.uint8], tmp_path: Path) -> None:
    path = tmp_path / "a.learner"
    with pytest.raises(FormatError, match=re.escape(str(path))):
        kind.learner.load(path)
    start().partial_fit(images, labels("a", "b")).save(path)
    whole = path.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole[:100], b"\0" * 2000):
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match=re.escape(str(path))):
            kind.learner.load(path)


@pytest.mark.parametrize("variable", ["EVERBIT_THREADS", "EVERBIT_ISA"])
def test_a_sound_file_is_not_blamed_for_the_environment(
    variable: str, start: Start, kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start().save(tmp_path / "a.learner")
    monkeypatch.setenv(variable, "foo")
    with pytest.raises(ConfigurationError, match=rf"{variable} .*unset"):
        kind.learner.load(tmp_path / "a.learner")


def test_a_file_of_another_kind_is_refused(start: Start, kind: Kind, tmp_path: Path) -> None:
    start().save(tmp_path / "a.learner")
    for other in LEARNERS.values():
        if other is not kind:
            with pytest.raises(FormatError, match=r"a\.learner"):
                other.learner.load(tmp_path / "a.learner")


def test_memory_use_counts_what_is_kept(start: Start, images: NDArray[np.uint8]) -> None:
    learner = start().partial_fit(images, labels("a", "b"))
    use = learner.memory_use
    assert use["total"] > use["replay"] > 0
    use.clear()
    assert learner.memory_use


def test_looking_changes_nothing(start: Start, images: NDArray[np.uint8], tmp_path: Path) -> None:
    learner = start().partial_fit(images, labels("a", "b"))
    learner.save(tmp_path / "a.learner")
    before = images.copy()
    learner.predict(images)
    learner.predict_proba(images)
    learner.save(tmp_path / "b.learner")
    np.testing.assert_array_equal(images, before)
    assert (tmp_path / "a.learner").read_bytes() == (tmp_path / "b.learner").read_bytes()


def test_only_the_engine_plans_memory(start: Start, kind: Kind) -> None:
    if kind.learner is Learner:
        assert start(memory="1MB").memory_use["total"] <= 10**6
    else:
        with pytest.raises(ConfigurationError, match="plans no memory: leave memory out"):
            start(memory="1MB")


def test_the_seed_decides_everything(start: Start, kind: Kind, images: NDArray[np.uint8]) -> None:
    def learned(seed: int) -> NDArray[np.float64]:
        learner = start(seed=seed).partial_fit(images, labels(0, 1)).partial_fit(images[:19], labels(2, 3, count=19))
        return learner.predict_proba(images)

    np.testing.assert_array_equal(learned(0), learned(0))
    assert np.array_equal(learned(0), learned(1)) != kind.seeded


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda x: (x[:0], []), ImageError, "empty"),
        (lambda x: (x.astype(np.float32), labels(0)), ImageError, "float32"),
        (lambda x: (x[:, :-1], labels(0)), ImageError, "shape"),
        (lambda x: (np.full(x.shape, np.nan), labels(0)), ImageError, "NaN"),
        (lambda x: (x, labels(0, count=23)), LabelError, "23"),
        (lambda x: (x, labels(None)), LabelError, "missing"),
        (lambda x: (x, labels([1])), LabelError, "hashed"),
        (lambda x: (x, "cat"), LabelError, "str"),
        (lambda x: (x, labels(*range(7))), LabelError, "9 classes"),
    ],
    ids=["no image", "dtype", "shape", "NaN", "too few labels", "no label", "unhashable", "type", "too many classes"],
)
def test_mistakes_are_named_and_change_nothing(
    start: Start,
    images: NDArray[np.uint8],
    change: Callable[[NDArray[np.uint8]], tuple[object, list[Hashable]]],
    error: type[Exception],
    message: str,
) -> None:
    learner = start().partial_fit(images, labels("a", "b"))
    before = learner.predict_proba(images)
    with pytest.raises(error, match=message):
        learner.partial_fit(*change(images))
    assert learner.classes_ == ["a", "b"]
    np.testing.assert_array_equal(learner.predict_proba(images), before)


def test_no_epochs_are_an_error(start: Start, images: NDArray[np.uint8]) -> None:
    with pytest.raises(ConfigurationError, match="epochs is 0"):
        start().partial_fit(images, labels(0), epochs=0)


def test_an_interrupted_experience_leaves_the_learner_as_it_was(start: Start, images: NDArray[np.uint8]) -> None:
    learner, other = (start().partial_fit(images, labels("a", "b")) for _ in range(2))

    def interrupt(step: int, steps: int, accuracy: float) -> None:
        if step == steps - 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.partial_fit(images, labels("c"), progress=interrupt)
    assert learner.classes_ == ["a", "b"]
    for each in (learner, other):
        each.partial_fit(images, labels("d", "a"))
    np.testing.assert_array_equal(learner.predict_proba(images), other.predict_proba(images))


def test_progress_counts_the_mini_batches(start: Start, kind: Kind, images: NDArray[np.uint8]) -> None:
    calls: list[tuple[int, int, float]] = []
    start().partial_fit(images, labels(0, 1), epochs=3, progress=lambda *values: calls.append(values))
    total = 6 if kind.passes else 2
    assert [(step, steps) for step, steps, _ in calls] == [(step, total) for step in range(1, total + 1)]
    assert all(0 <= accuracy <= 1 for _, _, accuracy in calls)


def test_classes_that_the_program_knows_are_there_at_once(
    program: Program, kind: Kind, images: NDArray[np.uint8], tmp_path: Path
) -> None:
    known = with_known_classes(program, np.random.default_rng(2), ("a", "b", "c"))
    learner = kind.learner(known, Settings(classes=2, replay_per_class=4))
    if not kind.knows_classes:
        assert learner.classes_ == []
        return
    assert learner.classes_ == ["a", "b", "c"]
    before = learner.predict_proba(images)
    assert before.shape == (len(images), 3)
    assert set(learner.predict(images)) <= {"a", "b", "c"}
    learner.partial_fit(images, labels("new", "b"), epochs=1)
    assert learner.classes_ == ["a", "b", "c", "new"]
    with pytest.raises(LabelError, match="6 classes are too many for this learner, made for 5"):
        learner.partial_fit(images, labels("d", "e"))
    learner.save(tmp_path / "known.learner")
    again = kind.learner.load(tmp_path / "known.learner")
    assert again.classes_ == learner.classes_
    np.testing.assert_array_equal(again.predict_proba(images), learner.predict_proba(images))


def test_learners_agree_on_known_classes(program: Program, images: NDArray[np.uint8]) -> None:
    """In floating point as in integers, but for rounding."""
    known = with_known_classes(program, np.random.default_rng(2), ("a", "b", "c"))
    found, expected = (learner(known).predict_proba(images) for learner in (Learner, FloatLearner))
    assert np.abs(found - expected).mean() < 0.1
    assert (found.argmax(1) == expected.argmax(1)).mean() > 0.7
