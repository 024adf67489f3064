"""Imports thousands of mutated files in a process of its own: python mutate_foreign_files.py ENDING SEED COUNT."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import torch

from attacks.foreign_files import mutated, outcome, sound_files


def main(ending: str, seed: int, count: int) -> None:
    torch.set_num_threads(1)
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        content = sound_files(folder)[ending]
        for trial in range(count):
            print(f"\r{ending} seed {seed} trial {trial} ", end="", file=sys.stderr, flush=True)
            changed = mutated(content, np.random.default_rng([seed, trial]))
            outcomes[outcome(changed, folder / f"mutated{ending}")] += 1
    print(outcomes["imported"], sum(outcomes.values()) - outcomes["imported"])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
