"""Fixtures of the tests of layers and optimizers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread_and_seed() -> Iterator[None]:
    """The same numbers each time, and no threads that cost more than they bring on tiny networks."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(7)
    yield
    torch.set_num_threads(threads)
