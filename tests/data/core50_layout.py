"""CORe50's files as its authors release them, made of any frames by the rules of their lists."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

TEST_SESSIONS = (3, 7, 10)
NICV2 = (79, 196, 391)


def write_core50(
    root: Path, images: np.ndarray, objects: np.ndarray, sessions: np.ndarray, protocol: int = 2
) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
    """Writes uint8 [N, 128, 128, 3] frames of objects 1..50 in sessions 1..11; returns paths, lookup and labels."""
    folder = root / "core50"
    paths = []
    for number, (pixels, item, session) in enumerate(zip(images, objects.tolist(), sessions.tolist(), strict=True)):
        path = f"s{session}/o{item}/C_{session:02}_{item:02}_{number:03}.png"
        file = folder / "core50_128x128" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(file)
        paths.append(path)
    lookup, labels = released_lists(objects - 1, sessions)
    for name, content in (("paths", paths), ("LUP", lookup), ("labels", labels)):
        (folder / f"{name}.pkl").write_bytes(pickle.dumps(content, protocol))
    return paths, lookup, labels


def released_lists(objects: np.ndarray, sessions: np.ndarray) -> tuple[dict[str, Any], dict[str, Any]]:
    """LUP and labels: of every scenario ten runs, of every run the lists of its experiences and of the test set.

    objects: 0..49. NC numbers the objects in the order of their arrival, the others keep their numbers. Experiences
    without frames are left out.
    """
    lookup: dict[str, Any] = {name: [] for name in ("ni", "nc", *(f"nicv2_{count}" for count in NICV2))}
    labels: dict[str, Any] = {name: [] for name in lookup}
    training = ~np.isin(sessions, TEST_SESSIONS)
    for run in range(10):
        rng = np.random.default_rng(run)
        units = [(item, session) for item in range(50) for session in range(1, 12) if session not in TEST_SESSIONS]
        order = rng.permutation(len(units))
        arrival = _class_order(rng)
        parts = {
            "ni": [np.flatnonzero(training & (sessions == s)) for s in rng.permutation([1, 2, 4, 5, 6, 8, 9, 11])],
            "nc": [np.flatnonzero(training & np.isin(objects, group)) for group in arrival],
        }
        for count in NICV2:
            groups = [order[:10], *np.array_split(order[10:], count - 1)]
            wanted = [[units[unit] for unit in group] for group in groups]
            parts[f"nicv2_{count}"] = [_frames(objects, sessions, pairs) for pairs in wanted]
        test = np.flatnonzero(~training)
        number_of = np.argsort(np.concatenate(arrival))
        for name, lists in parts.items():
            lists = [*(part for part in lists if len(part)), test]
            lookup[name].append([part.tolist() for part in lists])
            numbers = number_of[objects] if name == "nc" else objects
            labels[name].append([numbers[part].tolist() for part in lists])
    return lookup, labels


def _class_order(rng: np.random.Generator) -> list[np.ndarray]:
    """Objects of each NC experience: the first of every category, then five at a time in any order."""
    rest = [np.arange(start, start + 25, 5) + 1 + step for step in range(4) for start in (0, 25)]
    return [np.arange(0, 50, 5), *(rest[index] for index in rng.permutation(len(rest)))]


def _frames(objects: np.ndarray, sessions: np.ndarray, pairs: list[tuple[int, int]]) -> np.ndarray:
    member = np.zeros(len(objects), bool)
    for item, session in pairs:
        member |= (objects == item) & (sessions == session)
    return np.flatnonzero(member)
