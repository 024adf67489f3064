"""Avalanche for the tests of this folder, which are skipped without it."""

from __future__ import annotations

import importlib.util

INSTALLED = importlib.util.find_spec("avalanche") is not None


def declare_missing_operators() -> None:
    """Lets torchvision be imported beside a PyTorch that it was not built for.

    The torchvision of the Python package index is built for CUDA; a CPU build of PyTorch cannot load its compiled
    operators, and its import stops at two of them. Nothing here calls either.
    """
    import torch

    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor boxes, Tensor scores, float threshold) -> Tensor")


if INSTALLED:
    declare_missing_operators()
