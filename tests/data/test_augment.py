"""pad_crop_flip: every result is a shift of the image or of its mirror image."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everbit.data.augment import pad_crop_flip


@settings(deadline=None, max_examples=30)
@given(
    st.integers(0, 2**32),
    st.integers(1, 6),
    st.integers(1, 7),
    st.integers(1, 7),
    st.sampled_from([1, 3]),
    st.integers(0, 4),
)
def test_results_are_crops(seed: int, count: int, height: int, width: int, channels: int, pad: int) -> None:
    images = np.random.default_rng(seed).integers(1, 256, (count, height, width, channels), np.uint8)
    before = images.copy()
    results = pad_crop_flip(images, np.random.default_rng(seed), pad)
    assert results.shape == images.shape
    assert results.dtype == np.uint8
    assert (images == before).all()
    for image, result in zip(images, results, strict=True):
        candidates = []
        for source in (image, image[:, ::-1]):
            padded = np.pad(source, ((pad, pad), (pad, pad), (0, 0)))
            candidates += [
                padded[top : top + height, left : left + width]
                for top in range(2 * pad + 1)
                for left in range(2 * pad + 1)
            ]
        assert any(np.array_equal(result, candidate) for candidate in candidates)


def test_same_seed_same_batch() -> None:
    images = np.random.default_rng(0).integers(0, 256, (20, 8, 8, 3), np.uint8)
    first = pad_crop_flip(images, np.random.default_rng(5))
    assert (first == pad_crop_flip(images, np.random.default_rng(5))).all()
    assert (first != pad_crop_flip(images, np.random.default_rng(6))).any()


def test_half_are_mirrored_and_every_shift_occurs() -> None:
    image = np.zeros((9, 9, 1), np.uint8)
    image[4, 4], image[4, 5] = 1, 2
    results = pad_crop_flip(np.repeat(image[None], 4000, axis=0), np.random.default_rng(0))
    kept = results[(results == 1).any(axis=(1, 2, 3)) & (results == 2).any(axis=(1, 2, 3))][..., 0]
    left = np.argmax((kept == 1).any(axis=1), axis=1)
    right = np.argmax((kept == 2).any(axis=1), axis=1)
    assert np.mean(left > right) == pytest.approx(0.5, abs=0.05)
    rows = np.argmax((results[..., 0] == 1).any(axis=2), axis=1)
    assert sorted(set(rows.tolist())) == list(range(9))
