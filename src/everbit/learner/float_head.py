"""The linear head of a float learner: CWR* or plain rows (docs/method.md 1.1)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from everbit.compile.program import Head


class FloatHead:
    """Rows of consolidated weights cw and, during an experience, of temporary weights tw, float32 [classes, features].

    cwr: consolidate by CWR*; else the rows stay as they were trained. past: patterns seen of each class, int64. bias:
    of each logit, constant; the rows that the program knows bring theirs, all others have 0.
    """

    def __init__(self, classes: int, features: int, cwr: bool) -> None:
        self.cwr = cwr
        self.cw = torch.zeros(classes, features)
        self.tw = nn.Parameter(torch.zeros(classes, features))
        self.past = torch.zeros(classes, dtype=torch.int64)
        self.bias = torch.zeros(classes)

    def know(self, head: Head) -> None:
        """Takes over the classes that a program knows."""
        known = head.classifier
        if known is not None:
            rows = slice(len(known.labels))
            weights = known.weights.astype(np.float64) * 2.0 ** (head.range_exponent - 31)
            self.cw[rows] = torch.from_numpy(weights).float()
            self.past[rows] = torch.from_numpy(known.past.astype(np.int64))
            self.bias[rows] = torch.from_numpy(known.bias.astype(np.float64) * 2.0**-16).float()

    def state(self) -> dict[str, Tensor]:
        """The tensors that outlive an experience, by name."""
        return {"cw": self.cw, "past": self.past}

    def begin_experience(self, present: NDArray[np.uint8]) -> None:
        """Starts tw from cw: CWR* for the classes present only, from 0 for all others.

        present: 1 for the classes among the experience's patterns and the replayed ones, uint8 [classes].
        """
        kept = torch.from_numpy(present > 0) if self.cwr else torch.ones(len(self.cw), dtype=torch.bool)
        self.tw.data = torch.where(kept[:, None], self.cw, 0.0)

    def loss(self, features: Tensor, labels: Tensor) -> tuple[Tensor, int]:
        """Mean cross entropy over all rows, and how many of the labels the logits of tw get right."""
        logits = features @ self.tw.T + self.bias
        return functional.cross_entropy(logits, labels), int((logits.argmax(dim=1) == labels).sum())

    def end_experience(self, counts: NDArray[np.int64]) -> None:
        """Consolidates. counts: patterns of each class in this experience; CWR* leaves those with 0 alone."""
        current = torch.from_numpy(counts)
        if not self.cwr:
            self.cw = self.tw.detach().clone()
        else:
            rows = torch.nonzero(current).flatten()
            trained = self.tw.detach()[rows]
            p = (self.past[rows] / current[rows]).sqrt()[:, None]
            self.cw[rows] = (p * self.cw[rows] + trained - trained.mean()) / (p + 1)
        self.past = self.past + current

    def logits(self, features: Tensor) -> Tensor:
        """Logits [N, classes] of the consolidated weights."""
        return features @ self.cw.T + self.bias
