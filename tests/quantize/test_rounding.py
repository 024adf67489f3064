"""Weights rounded by the covariance of what they are multiplied with."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from everbit.quantize.rounding import Moments, rounded


def correlated(groups: int, inputs: int, seed: int) -> np.ndarray:
    """Covariances [groups, K, K] of what neighbors share much of."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(0, 1, (groups, inputs, max(1, inputs // 3)))
    return mixing @ mixing.transpose(0, 2, 1) + 0.02 * np.eye(inputs)


def cost(error: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """e^T C e by output; error: [outputs, K], the outputs of a group one after the other."""
    by_group = error.reshape(len(covariance), -1, error.shape[1])
    return np.einsum("gok,gkl,gol->go", by_group, covariance, by_group).ravel()


@pytest.mark.parametrize(("groups", "outputs", "inputs"), [(1, 8, 27), (1, 16, 64), (12, 1, 9), (6, 1, 25), (3, 4, 18)])
def test_sums_are_nearer_than_by_rounding_to_nearest(groups: int, outputs: int, inputs: int) -> None:
    rng = np.random.default_rng(inputs)
    weights = rng.uniform(-127, 127, (groups * outputs, inputs))
    covariance = correlated(groups, inputs, 1)
    whole = rounded(weights, covariance, 127)
    nearest = cost(np.round(weights) - weights, covariance)
    found = cost(whole - weights, covariance)
    assert found.sum() < 0.8 * nearest.sum()
    assert np.array_equal(whole, np.round(whole))
    assert np.abs(whole).max() <= 127


def test_weights_at_the_end_stay_in_bounds() -> None:
    weights = np.full((4, 18), 127.0)
    weights[:, ::2] = -126.6
    whole = rounded(weights, correlated(1, 18, 2), 127)
    assert np.abs(whole).max() <= 127


def test_independent_inputs_are_rounded_to_nearest() -> None:
    weights = np.random.default_rng(3).uniform(-127, 127, (6, 20))
    covariance = np.diag(np.random.default_rng(4).uniform(0, 3, 20))[np.newaxis]
    np.testing.assert_array_equal(rounded(weights, covariance, 127), np.round(weights))


def test_whole_weights_stay_as_they_are() -> None:
    weights = np.random.default_rng(5).integers(-127, 128, (6, 20)).astype(np.float64)
    np.testing.assert_array_equal(rounded(weights, correlated(1, 20, 6), 127), weights)


@pytest.mark.parametrize("covariance", [np.zeros((1, 9, 9)), np.ones((1, 9, 9))])
def test_a_covariance_without_an_inverse_is_no_trouble(covariance: np.ndarray) -> None:
    weights = np.random.default_rng(7).uniform(-127, 127, (5, 9))
    whole = rounded(weights, covariance, 127)
    assert np.isfinite(whole).all()
    assert cost(whole - weights, covariance).sum() <= cost(np.round(weights) - weights, covariance).sum() + 1e-9


LAYERS = {
    "convolution": (nn.Conv2d(4, 6, 3, padding=1, bias=False), (5, 4, 9, 7)),
    "stride": (nn.Conv2d(4, 6, 5, 2, padding=(2, 1), bias=False), (5, 4, 12, 11)),
    "depthwise": (nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False), (5, 6, 8, 8)),
    "groups": (nn.Conv2d(6, 4, 1, groups=2, bias=False), (5, 6, 8, 8)),
    "dense": (nn.Linear(7, 3, bias=False), (40, 7)),
}


@pytest.mark.parametrize("name", LAYERS)
@torch.no_grad()
def test_moments_give_the_variance_of_a_layers_outputs(name: str) -> None:
    """On maps so small that every place is looked at: w^T C w is the variance of the sums."""
    layer, shape = LAYERS[name]
    x = torch.from_numpy(np.random.default_rng(8).normal(0.5, 1, shape)).float()
    halves = x.split([2, len(x) - 2])
    moments = Moments.of(layer, halves[0])
    moments += Moments.of(layer, halves[1])
    weights = layer.weight.double().numpy().reshape(len(layer.weight), -1)
    outputs = layer(x).double().transpose(0, 1).flatten(1).numpy()
    np.testing.assert_allclose(cost(weights, moments.covariance()), outputs.var(axis=1), rtol=1e-4)


def test_moments_of_a_large_map_look_at_some_places() -> None:
    layer = nn.Conv2d(2, 3, 3, stride=2, padding=1)
    x = torch.from_numpy(np.random.default_rng(9).normal(0, 1, (4, 2, 90, 120))).float()
    moments = Moments.of(layer, x)
    assert moments.count < 4 * 45 * 60 / 9
    np.testing.assert_allclose(np.diagonal(moments.covariance()[0]), 1, atol=0.15)
