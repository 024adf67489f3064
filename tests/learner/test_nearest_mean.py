"""The nearest-mean learner: its scores against exact fractions, and that nothing but the set of patterns counts."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors import safe_open

from everbit import engine
from everbit.compile.image import program_image
from everbit.errors import CapacityError, ConfigurationError, FormatError
from everbit.learner.class_means import ClassMeans, unpack_codes
from everbit.learner.learner import Learner
from everbit.learner.nearest_mean import NearestMeanLearner
from everbit.learner.settings import Settings
from reference.random_program import random_images, random_program

SHAPE: dict[str, Any] = {"height": 5, "width": 4, "channels": 37, "blocks": 1}
PROGRAM = random_program(np.random.default_rng(4), latent_bits=1, **SHAPE)
LABELS = list("abcabccaabbbcab")


def images(count: int = 15, seed: int = 0) -> NDArray[np.uint8]:
    return random_images(np.random.default_rng(seed), PROGRAM, count)


def learned(**options: Any) -> NearestMeanLearner:
    return NearestMeanLearner(PROGRAM, Settings(classes=4, **options)).partial_fit(images(), LABELS)


def saved(learner: NearestMeanLearner, path: Path) -> dict[str, NDArray[Any]]:
    learner.save(path)
    return safetensors.numpy.load_file(path)


@pytest.mark.parametrize("bits", [1, 2, 4, 6, 7, 8])
def test_scores_are_those_of_exact_fractions(bits: int) -> None:
    """To the rounding of three operations of float64, so that only ties within 2^-50 could fall otherwise."""
    rng = np.random.default_rng(bits)
    codes = rng.integers(0, 2**bits, (20, 13)).astype(np.uint8)
    classes = np.arange(20, dtype=np.int32) % 3
    means = ClassMeans(classes=4, values=13, bits=bits)
    means.add(codes, classes)
    scores = means.scores(codes, 4)
    assert (scores[:, 3] == -np.inf).all()
    for row, x in zip(scores, codes.astype(int).tolist(), strict=True):
        for label in range(3):
            member = codes[classes == label].astype(int)
            mean = [Fraction(int(total), len(member)) for total in member.sum(axis=0)]
            distance = sum((value - m) ** 2 for value, m in zip(x, mean, strict=True))
            exact = sum(value * value for value in x) - distance
            assert abs(Fraction(row[label]) - exact) <= Fraction(1, 2**50) * (1 + 3 * sum(m * m for m in mean))
    within = sum(float(((codes[classes == c] - codes[classes == c].mean(axis=0)) ** 2).sum()) for c in range(3))
    assert means.variance(3) == pytest.approx((within + 13 * (2**bits - 1) ** 2 / 4) / (13 * 21))


@pytest.mark.parametrize("bits", [1, 2, 4, 6, 7, 8])
def test_codes_are_what_the_engine_stores(bits: int) -> None:
    codes = np.random.default_rng(0).integers(0, 2**bits, (3, 11)).astype(np.uint8)
    lanes = (codes[:, :, None] >> np.arange(bits)) & 1
    stored = np.packbits(lanes.reshape(3, -1).astype(np.uint8), axis=1, bitorder="little")
    np.testing.assert_array_equal(unpack_codes(stored, 11, bits), codes)


@pytest.mark.parametrize("bits", [1, 4, 16])
def test_latents_are_those_of_the_replay_memory(bits: int) -> None:
    program = random_program(np.random.default_rng(bits), latent_bits=bits, **SHAPE)
    batch = random_images(np.random.default_rng(0), program, 6)
    learner = Learner(program, Settings(classes=2, replay_per_class=6))
    found = learner.latents(batch)
    options = {"q_bin": 8, "q_nonbin": 16, "classes": 2, "cwr": True, "learning_rates": [(0, 0)] * 5}
    np.testing.assert_array_equal(found, engine.Network(program_image(program), 1, options).encode(batch))
    learner.partial_fit(batch, [0, 1, 0, 1, 1, 1], epochs=1)
    assert sorted(map(bytes, learner._native.replay()[0])) == sorted(map(bytes, found))
    np.testing.assert_array_equal(learner.latents(batch), found)


@settings(max_examples=15, deadline=None)
@given(st.permutations(range(len(LABELS))), st.sets(st.integers(1, len(LABELS) - 1)), st.integers(1, 9))
def test_neither_order_nor_experiences_matter(order: list[int], cuts: set[int], batch_new: int) -> None:
    learner = NearestMeanLearner(PROGRAM, Settings(classes=4, batch_new=batch_new))
    for part in np.split(np.array(order), sorted(cuts)):
        learner.partial_fit(images()[part], [LABELS[index] for index in part])
    expected = learned()
    columns = [learner.classes_.index(label) for label in expected.classes_]
    new = images(20, seed=1)
    np.testing.assert_array_equal(
        learner._scores(learner.latents(new))[:, columns], expected._scores(expected.latents(new))
    )


def test_the_batch_does_not_matter() -> None:
    learner, new = learned(), images(300, seed=2)
    one_by_one = np.concatenate([learner._scores(learner.latents(image)) for image in new])
    np.testing.assert_array_equal(learner._scores(learner.latents(new)), one_by_one)


def test_memory_is_counted_to_the_byte(tmp_path: Path) -> None:
    learner = learned()
    tensors = saved(learner, tmp_path / "a")
    height, width, channels = PROGRAM.latent_shape
    kept = 4 * (4 * height * width * channels + 8 + 8)
    assert sum(tensors[name].nbytes for name in ("sums", "squares", "counts")) == kept
    smallest = Settings(strategy="cwr", classes=1, experience_images=1, batch_new=1, batch_replayed=0)
    whole = kept + Learner(PROGRAM, smallest).memory_use["total"]
    assert learner.memory_use == {"replay": kept, "total": whole}


def test_identical_patterns_give_finite_probabilities() -> None:
    learner = NearestMeanLearner(PROGRAM).partial_fit(images(2), ["a", "b"])
    found = learner.predict_proba(images(2))
    assert np.isfinite(found).all()
    assert learner.predict(images(2)) == ["a", "b"]


def test_progress_tells_the_accuracy_before_the_images_are_learned() -> None:
    calls: list[float] = []
    batch = np.tile(images(1), (4, 1, 1, 1))
    learner = NearestMeanLearner(PROGRAM, Settings(batch_new=2))
    learner.partial_fit(batch, ["a"] * 4, progress=lambda step, steps, right: calls.append(right))
    assert calls == [0.0, 1.0]


def test_wide_latents_are_refused() -> None:
    program = random_program(np.random.default_rng(0), latent_bits=16, **SHAPE)
    with pytest.raises(ConfigurationError, match="16-bit latents are not exact: compile the model with latents of 8"):
        NearestMeanLearner(program)


def test_more_patterns_than_exact_sums_take_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    tensors = saved(learned(), path)
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    most = ClassMeans(4, tensors["sums"].shape[1], 1).most_patterns
    assert most > 2**20
    tensors["counts"][0] = most - 1
    safetensors.numpy.save_file(tensors, path, metadata)
    learner = NearestMeanLearner.load(path)
    with pytest.raises(CapacityError, match=f"at most {most:,}"):
        learner.partial_fit(images(2), ["a", "a"])
    learner.partial_fit(images(1), ["a"])


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("sums", lambda x: x[:, :-1]),
        ("sums", lambda x: x.astype(np.int64)),
        ("sums", lambda x: x + 1000),
        ("counts", lambda x: x * 0),
        ("counts", lambda x: x * -1),
        ("counts", lambda x: x + 2**60),
        ("squares", lambda x: x[:2]),
        ("model", lambda x: x[:-9]),
        ("model", lambda x: x[:, None]),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, change: Any) -> None:
    path = tmp_path / "a"
    tensors = saved(learned(), path)
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    tensors[name] = np.ascontiguousarray(change(tensors[name]))
    safetensors.numpy.save_file(tensors, path, metadata)
    with pytest.raises(FormatError, match="use an earlier copy"):
        NearestMeanLearner.load(path)
