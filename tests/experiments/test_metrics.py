"""Metrics against examples worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from everbit.errors import ConfigurationError
from everbit.experiments.metrics import (
    accuracy,
    accuracy_after,
    average_accuracy,
    backward_transfer,
    confusion_matrix,
    final_accuracy,
    forgetting,
    group_accuracies,
)

# Three experiences. Class group 0 is learned to 0.8, rises to 0.9, falls to 0.5; group 1 goes from 0.6 to 0.7.
MATRIX = np.array([[0.8, 0.0, 0.1], [0.9, 0.6, 0.0], [0.5, 0.7, 1.0]])


def test_accuracy() -> None:
    assert accuracy([1, 2, 3, 3], [1, 2, 3, 4]) == 0.75
    assert accuracy(np.array(["a", "b"]), ["a", "b"]) == 1.0


def test_group_accuracies() -> None:
    row = group_accuracies([0, 0, 2, 2, 2], [0, 1, 2, 2, 3], [(0, 1), (2,), (3,), (0, 1, 2, 3)])
    assert row.tolist() == pytest.approx([0.5, 1.0, 0.0, 0.6])


def test_accuracy_after_weighs_by_test_images() -> None:
    # Row 0: (0.8*10 + 0*20 + 0.1*10) / 40 = 0.225; row 1: (9 + 12 + 0) / 40; row 2: (5 + 14 + 10) / 40.
    assert accuracy_after(MATRIX, [10, 20, 10]).tolist() == pytest.approx([0.225, 0.525, 0.725])
    assert final_accuracy(MATRIX, [10, 20, 10]) == pytest.approx(0.725)


def test_accuracy_after_agrees_with_the_predictions() -> None:
    generator = np.random.default_rng(0)
    labels, predicted = generator.integers(0, 10, (2, 500))
    groups = [(3, 1), (0, 2, 4), (5, 6, 7, 8, 9)]
    sizes = [int(np.isin(labels, group).sum()) for group in groups]
    matrix = group_accuracies(predicted, labels, groups)[None]
    assert final_accuracy(matrix, sizes) == pytest.approx(accuracy(predicted, labels))


def test_average_accuracy() -> None:
    assert average_accuracy(MATRIX) == pytest.approx((0.5 + 0.7 + 1.0) / 3)
    assert average_accuracy(MATRIX[:2]) == pytest.approx((0.9 + 0.6) / 2)


def test_forgetting() -> None:
    # Group 0: best past 0.9, last 0.5, forgot 0.4. Group 1: best past 0.6, last 0.7, gained 0.1.
    assert forgetting(MATRIX) == pytest.approx((0.4 - 0.1) / 2)
    assert forgetting(MATRIX[:2]) == pytest.approx(0.8 - 0.9)
    assert forgetting(MATRIX[:1]) == 0.0


def test_forgetting_of_naive_fine_tuning() -> None:
    assert forgetting(np.eye(5)) == 1.0
    assert backward_transfer(np.eye(5)) == -1.0


def test_backward_transfer() -> None:
    # Group 0: 0.5 - 0.8 = -0.3. Group 1: 0.7 - 0.6 = +0.1.
    assert backward_transfer(MATRIX) == pytest.approx((-0.3 + 0.1) / 2)
    assert backward_transfer(MATRIX[:1]) == 0.0


def test_confusion_matrix() -> None:
    counts = confusion_matrix(["cat", "dog", "dog", "cow"], ["cat", "cat", "dog", "dog"], ["dog", "cat", "cow"])
    assert counts.tolist() == [[1, 0, 1], [1, 1, 0], [0, 0, 0]]
    assert np.trace(counts) == 2
    assert confusion_matrix(np.array([1, 0]), np.array([1, 1]), [0, 1]).tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize("matrix", [np.zeros(3), np.zeros((0, 3)), np.zeros((4, 3))])
def test_matrix_of_a_wrong_shape(matrix: np.ndarray) -> None:
    with pytest.raises(ConfigurationError, match="the accuracy matrix has shape"):
        forgetting(matrix)


@pytest.mark.parametrize("bad", [50.0, -0.1, np.nan])
def test_matrix_of_no_fractions(bad: float) -> None:
    with pytest.raises(ConfigurationError, match="fractions of 1"):
        average_accuracy(np.array([[bad, 0.5]]))


def test_other_errors() -> None:
    with pytest.raises(ConfigurationError, match="prediction"):
        accuracy([1], [1, 2])
    with pytest.raises(ConfigurationError, match="prediction"):
        accuracy([], [])
    with pytest.raises(ConfigurationError, match=r"no test image has a class of group 1 \['7'\]"):
        group_accuracies([0], [0], [(0,), (7,)])
    with pytest.raises(ConfigurationError, match="as group sizes"):
        accuracy_after(MATRIX, [10, 20])
    with pytest.raises(ConfigurationError, match="as group sizes"):
        accuracy_after(MATRIX, [10, 20, 0])
    with pytest.raises(ConfigurationError, match="not among the classes"):
        confusion_matrix([1], [2], [1])
    with pytest.raises(ConfigurationError, match="prediction"):
        confusion_matrix([1], [2, 1], [1, 2])
