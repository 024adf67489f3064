"""The float learner: its parts, its file, and the same experiences learned by the engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from everbit import engine
from everbit.errors import ConfigurationError, FormatError
from everbit.formats.model_file import save_program
from everbit.learner.engine_options import sampler_options
from everbit.learner.float_head import FloatHead
from everbit.learner.float_learner import FloatLearner
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings
from everbit.quantize.widths import Widths
from reference.random_program import random_images, random_program

SHAPE = {"height": 5, "width": 4, "channels": 37}


def head_after(counts: list[int], past: list[int]) -> tuple[FloatHead, torch.Tensor]:
    """A CWR* head with random rows after an experience of `counts`, and the rows that were trained."""
    head = FloatHead(classes=4, features=3, cwr=True)
    generator = torch.Generator().manual_seed(0)
    head.cw = torch.randn(4, 3, generator=generator)
    head.past = torch.tensor(past)
    head.begin_experience(np.array(counts) > 0)
    head.tw.data += torch.randn(4, 3, generator=generator)
    trained = head.tw.detach().clone()
    head.end_experience(np.array(counts))
    return head, trained


def test_cwr_weighs_old_rows_by_what_was_seen() -> None:
    before = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    head, trained = head_after(counts=[9, 0, 4, 0], past=[36, 5, 0, 0])
    mean = trained[[0, 2]].mean()
    torch.testing.assert_close(head.cw[0], (2 * before[0] + trained[0] - mean) / 3)
    torch.testing.assert_close(head.cw[2], trained[2] - mean)
    assert torch.equal(head.cw[[1, 3]], before[[1, 3]])
    assert head.past.tolist() == [45, 5, 4, 0]


def test_plain_rows_are_all_trained_and_kept() -> None:
    head = FloatHead(classes=3, features=2, cwr=False)
    head.cw[0] = 5.0
    head.begin_experience(np.array([False, True, False]))
    assert head.tw.tolist() == [[5.0, 5.0], [0.0, 0.0], [0.0, 0.0]]
    head.tw.data[:2] = 7.0
    head.end_experience(np.array([0, 4, 0]))
    assert head.cw.tolist() == [[7.0, 7.0], [7.0, 7.0], [0.0, 0.0]]


@pytest.mark.parametrize("shared_replay", [False, True])
def test_a_seed_shows_the_patterns_that_it_shows_the_engine(shared_replay: bool) -> None:
    """The replay memories are the same bytes, and so are the draws to come."""
    rng = np.random.default_rng(0)
    program = random_program(rng, latent_bits=1, channels=3)
    settings = Settings(
        classes=6, replay_per_class=4, batch_new=5, batch_replayed=8, shared_replay=shared_replay, seed=7
    )
    integers, floats = Learner(program, settings), FloatLearner(program, settings)
    for classes in ((0, 1), (2, 3), (1, 4)):
        images, labels = random_images(rng, program, 23), rng.choice(classes, 23).tolist()
        for learner in (integers, floats):
            learner.partial_fit(images, labels)
        state, sampled = np.frombuffer(integers.state, np.uint8), floats._sampled.numpy()
        generator, alignment = 8, 64
        np.testing.assert_array_equal(sampled[:generator], state[:generator])
        np.testing.assert_array_equal(sampled[alignment:], state[-(len(sampled) - alignment) :])


SAMPLER = sampler_options(Settings(classes=2, replay_per_class=3), 2, 6, 4)


@pytest.mark.parametrize("classes", [0, 65535])
def test_a_sampler_refuses_labels_that_it_cannot_hold(classes: int) -> None:
    with pytest.raises(ValueError, match="between 1 and 65534"):
        engine.Sampler(SAMPLER | {"classes": classes}, pattern_bytes=1)


def test_a_sampler_never_draws_from_an_impossible_memory() -> None:
    sampler = engine.Sampler(SAMPLER, pattern_bytes=1)
    state = sampler.state()
    state[-128:] = 1  # labels beyond the classes, and counters
    with pytest.raises(ValueError, match="replay memory"):
        sampler.restore(state)
    sampler.add(np.array([[7], [8]], np.uint8), np.array([0, 1], np.int32))
    sampler.begin(1)
    patterns, labels = sampler.draw()
    assert sorted(zip(patterns.ravel().tolist(), labels.tolist(), strict=True)) == [(7, 0), (8, 1)]


@pytest.mark.parametrize("strategy", ["lr", "cwr"])
@pytest.mark.parametrize("count_replayed", [True, False])
@pytest.mark.parametrize(("latent", "seed"), [("engine", 0), ("engine", 1), ("program", 2), ("program", 3)])
def test_logits_are_close_to_the_engine_s(strategy: str, count_replayed: bool, latent: str, seed: int) -> None:
    """Three experiences of several mini-batches each: one seed shows both learners the same patterns."""
    rng = np.random.default_rng(seed)
    program = random_program(rng, q_f=16, latent_bits=8, blocks=2, downsample=False, pool_features=False, **SHAPE)
    settings = Settings(
        strategy,
        classes=6,
        replay_per_class=8,
        batch_new=5,
        batch_replayed=7,
        count_replayed=count_replayed,
        learning_rates={"head": 0.0005, "binary": 0.2, "norm": 0.2, "bias": 0.2, "weight": 0.2},
    )
    integers = Learner(program, settings, Widths(q_f=16, q_bin=16, q_nonbin=32, latent=8))
    floats = FloatLearner(program, settings, latent=latent)
    tests = random_images(rng, program, 40)
    for first in (0, 2, 4):
        images, labels = random_images(rng, program, 16), [first, first + 1] * 8
        integers.partial_fit(images, labels, epochs=2)
        floats.partial_fit(images, labels, epochs=2)
        expected = integers.logits(tests) * 2.0**-16
        found = floats._known_logits(floats.latents(tests))
        assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.99
        assert found.std() == pytest.approx(expected.std(), rel=0.1)


def test_float_latents_learn_too() -> None:
    rng = np.random.default_rng(1)
    program = random_program(rng, latent_bits=1, channels=3)
    settings = Settings(classes=2, replay_per_class=4)
    quantized, real = FloatLearner(program, settings), FloatLearner(program, settings, latent="float")
    images = random_images(rng, program, 8)
    for learner in (quantized, real):
        learner.partial_fit(images, [0, 1] * 4).partial_fit(images, [0, 1] * 4)
    values = int(np.prod(program.latent_shape))
    assert real.memory_use["replay"] - quantized.memory_use["replay"] == 8 * (4 * values - (values + 7) // 8)
    assert not np.array_equal(real.predict_proba(images), quantized.predict_proba(images))


def test_the_body_learns_only_where_the_strategy_says_so() -> None:
    rng = np.random.default_rng(2)
    program = random_program(rng, channels=3)
    for strategy, learns in (("cwr", False), ("lr", True), ("naive", True)):
        learner = FloatLearner(program, Settings(strategy, classes=2))
        before = [p.clone() for p in learner._network.parameters()]
        learner.partial_fit(random_images(rng, program, 8), [0, 1] * 4)
        same = [torch.equal(old, new) for old, new in zip(before, learner._network.parameters(), strict=True)]
        assert all(same) is not learns


def test_a_memory_limit_and_an_unknown_latent_are_refused() -> None:
    program = random_program(np.random.default_rng(3))
    with pytest.raises(ConfigurationError, match="replay_per_class"):
        FloatLearner(program, Settings(memory=10**6))
    with pytest.raises(ConfigurationError, match="engine, program, float"):
        FloatLearner(program, latent="half")


def test_foreign_and_damaged_files_are_refused(tmp_path: Path) -> None:
    program = random_program(np.random.default_rng(4), channels=3)
    path = tmp_path / "float.learner"
    FloatLearner(program).save(path)
    content = path.read_bytes()
    for number, bad in enumerate((b"", b"not a file", content[: len(content) // 2], content[:-1])):
        broken = tmp_path / f"broken{number}"
        broken.write_bytes(bad)
        with pytest.raises(FormatError, match="cannot be read as a float learner"):
            FloatLearner.load(broken)
    save_program(program, tmp_path / "model.everbit")
    Learner(program).save(tmp_path / "engine.learner")
    for other in ("model.everbit", "engine.learner", "missing"):
        with pytest.raises(FormatError, match="cannot be read as a float learner"):
            FloatLearner.load(tmp_path / other)
    with pytest.raises(FormatError):
        Learner.load(path)


def test_labels_that_are_not_those_of_the_state_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    program = random_program(rng, channels=3)
    learner = FloatLearner(program, Settings(classes=4)).partial_fit(random_images(rng, program, 4), [1, 2, 1, 2])
    for wrong in ([1], [1, 1], [1, 2, 3], [1, 2, 3, 4, 5]):
        monkeypatch.setattr(learner, "_labels", wrong)
        learner.save(tmp_path / "wrong.learner")
        with pytest.raises(FormatError, match="is damaged"):
            FloatLearner.load(tmp_path / "wrong.learner")


def test_a_newer_file_asks_for_an_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "float.learner"
    with monkeypatch.context() as patch:
        patch.setattr("everbit.learner.tensor_file.VERSION", 99)
        FloatLearner(random_program(np.random.default_rng(5), channels=3)).save(path)
    with pytest.raises(FormatError, match="update everbit"):
        FloatLearner.load(path)
