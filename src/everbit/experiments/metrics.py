"""Metrics of continual learning. Every accuracy is a fraction of 1.

The accuracy matrix R [experiences, groups] holds in row i the accuracies after experience i, and in column j those on
the test images of experience j's classes. With new classes the groups part the test set; with new instances, where
every experience has all classes, every group is the whole test set.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everbit.errors import ConfigurationError


def accuracy(predicted: ArrayLike, labels: ArrayLike) -> float:
    """Fraction of the labels [N], N >= 1, that were predicted."""
    predicted, labels = np.asarray(predicted), np.asarray(labels)
    if predicted.shape != labels.shape or labels.size == 0:
        raise ConfigurationError(
            f"{predicted.size} prediction(s) for {labels.size} label(s): give one for each, and at least one"
        )
    return float(np.mean(predicted == labels))


def group_accuracies(
    predicted: ArrayLike, labels: ArrayLike, groups: Sequence[Collection[Hashable]]
) -> NDArray[np.float64]:
    """One row of the accuracy matrix, float64 [groups]: the accuracy on the test images of each group of classes."""
    predicted, labels = np.asarray(predicted), np.asarray(labels)
    row = np.empty(len(groups))
    for column, classes in enumerate(groups):
        member = np.isin(labels, np.array(list(classes)))
        if not member.any():
            raise ConfigurationError(f"no test image has a class of group {column} {sorted(map(str, classes))}")
        row[column] = accuracy(predicted[member], labels[member])
    return row


def accuracy_after(matrix: ArrayLike, group_sizes: ArrayLike) -> NDArray[np.float64]:
    """Accuracy on all classes after each experience, float64 [experiences].

    The mean of each row weighted by ``group_sizes``, the number of test images in each group; the groups must part the
    test set or each be the whole of it.
    """
    matrix, sizes = _checked(matrix), np.asarray(group_sizes, np.float64)
    if sizes.shape != matrix.shape[1:] or (sizes <= 0).any():
        raise ConfigurationError(
            f"{sizes.tolist()} as group sizes of {matrix.shape[1]} groups: give each group's, all > 0"
        )
    weighted: NDArray[np.float64] = matrix @ sizes / sizes.sum()
    return weighted


def final_accuracy(matrix: ArrayLike, group_sizes: ArrayLike) -> float:
    """Accuracy on all classes after the last experience."""
    return float(accuracy_after(matrix, group_sizes)[-1])


def average_accuracy(matrix: ArrayLike) -> float:
    """Mean of the last row over the groups seen so far, all weighing the same (ACC, Lopez-Paz and Ranzato, 2017)."""
    matrix = _checked(matrix)
    return float(matrix[-1, : len(matrix)].mean())


def forgetting(matrix: ArrayLike) -> float:
    """Mean over old experiences j of max over i before the last of R[i, j] - R[last, j] (Chaudhry et al., 2018).

    In -1..1, negative where old classes improved; 0 after the first experience, when nothing is old.
    """
    matrix = _checked(matrix)
    old = len(matrix) - 1
    if old == 0:
        return 0.0
    return float((matrix[:-1, :old].max(axis=0) - matrix[-1, :old]).mean())


def backward_transfer(matrix: ArrayLike) -> float:
    """Mean over old experiences j of R[last, j] - R[j, j] (Lopez-Paz and Ranzato, 2017).

    In -1..1, negative where old classes were forgotten; 0 after the first experience, when nothing is old.
    """
    matrix = _checked(matrix)
    old = len(matrix) - 1
    if old == 0:
        return 0.0
    return float((matrix[-1, :old] - np.diagonal(matrix)[:old]).mean())


def confusion_matrix(
    predicted: Sequence[Hashable] | NDArray[np.generic],
    labels: Sequence[Hashable] | NDArray[np.generic],
    classes: Sequence[Hashable],
) -> NDArray[np.int64]:
    """Counts int64 [C, C]: row = true class, column = predicted class, both in the order of ``classes``."""
    if len(predicted) != len(labels):
        raise ConfigurationError(f"{len(predicted)} prediction(s) for {len(labels)} label(s): give one for each")
    position = {label: index for index, label in enumerate(classes)}
    counts = np.zeros((len(classes), len(classes)), np.int64)
    for true, guess in zip(np.asarray(labels).tolist(), np.asarray(predicted).tolist(), strict=True):
        if true not in position or guess not in position:
            raise ConfigurationError(f"class {true!r} or {guess!r} is not among the classes {list(classes)}")
        counts[position[true], position[guess]] += 1
    return counts


def _checked(matrix: ArrayLike) -> NDArray[np.float64]:
    """The matrix as float64 [1 <= experiences <= groups], found to hold fractions."""
    matrix = np.asarray(matrix, np.float64)
    if matrix.ndim != 2 or not 1 <= len(matrix) <= matrix.shape[1]:
        raise ConfigurationError(
            f"the accuracy matrix has shape {list(matrix.shape)}: it needs a row for each experience trained, "
            "at least one, and a column for each experience of the stream"
        )
    if not ((matrix >= 0) & (matrix <= 1)).all():
        raise ConfigurationError("the accuracy matrix must hold fractions of 1 in 0..1; divide percentages by 100")
    return matrix
