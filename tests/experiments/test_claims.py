"""What holds, what fails, and by how much."""

from __future__ import annotations

import pytest

from everbit.experiments.reproductions.claims import Beats, Claim, Keeps

FINALS = {"ours": [0.50, 0.52, 0.54], "theirs": [0.49, 0.50, 0.51], "lower": [0.29], "higher": [0.30]}


@pytest.mark.parametrize(
    ("claim", "margin", "holds"),
    [
        (Beats("ours", "theirs"), 2.0, True),
        (Beats("ours", "theirs", 2.5), -0.5, False),
        (Beats("theirs", "ours"), -2.0, False),
        (Keeps("theirs", "ours", 2.5), 0.5, True),
        (Keeps("theirs", "ours", 1.5), -0.5, False),
        (Keeps("ours", "theirs", 0.3), 2.3, True),
        (Keeps("lower", "higher", 1.0), 0.0, True),
    ],
)
def test_margins_are_in_points_of_the_mean(claim: Claim, margin: float, holds: bool) -> None:
    verdict = claim.verdict(FINALS, "here: ")
    assert verdict.margin == pytest.approx(margin)
    assert verdict.holds is holds
    assert verdict.described()["holds"] is holds
    assert verdict.claim.startswith("here: ")


def test_class_orders_are_paired() -> None:
    assert Beats("ours", "theirs").verdict(FINALS, "").ours == "+2.0 ± 1.0 points"
    one = {name: values[:1] for name, values in FINALS.items()}
    assert Beats("ours", "theirs").verdict(one, "").ours == "+1.0 points (one order)"
