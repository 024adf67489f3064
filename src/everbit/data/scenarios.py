"""The scenarios by name, and the stream of a data set in one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from everbit.data.dataset import Dataset
from everbit.data.stream import Stream
from everbit.data.streams import joint_stream, nc_stream, ni_stream, nicv2_stream
from everbit.errors import ConfigurationError


@dataclass(frozen=True)
class Scenario:
    """How a data set becomes a stream.

    make: called with the data set and the keywords experiences, seed and images_per_class. by_class: whether each class
    comes in one experience only, in an order that may be given. experiences: their number where the name says it.
    """

    make: Callable[..., Stream]
    summary: str
    by_class: bool = False
    experiences: int | None = None


SCENARIOS: dict[str, Scenario] = {
    "nc": Scenario(nc_stream, "new classes", by_class=True),
    "ni": Scenario(ni_stream, "new instances of the same classes"),
    "nicv2": Scenario(nicv2_stream, "new instances and classes in many small experiences"),
    **{
        f"nicv2_{count}": Scenario(nicv2_stream, f"nicv2 in {count} experiences", experiences=count)
        for count in (79, 196, 391)
    },
    "joint": Scenario(joint_stream, "everything in one experience, the upper bound"),
}


def make_stream(
    scenario: str,
    dataset: Dataset,
    *,
    experiences: int | None = None,
    seed: int = 0,
    images_per_class: int | None = None,
    class_order: Sequence[int] | None = None,
) -> Stream:
    """The stream of a data set in a scenario, a key of ``SCENARIOS``.

    Raises ConfigurationError for an unknown scenario, or options that do not fit it or the data set; DataError where a
    class has no training image.
    """
    if scenario not in SCENARIOS:
        raise ConfigurationError(f"unknown scenario {scenario!r}: choose one of {', '.join(SCENARIOS)}")
    found = SCENARIOS[scenario]
    if found.experiences is not None and experiences not in (None, found.experiences):
        raise ConfigurationError(f"{scenario} has {found.experiences} experiences, not {experiences}: leave them out")
    make = found.make
    if class_order is not None:
        if not found.by_class:
            raise ConfigurationError(f"{scenario} brings no class of its own in each experience: leave class_order out")
        make = partial(make, class_order=class_order)
    return make(dataset, experiences=found.experiences or experiences, seed=seed, images_per_class=images_per_class)


def parse_class_order(text: str) -> tuple[int, ...]:
    """(3, 1, 2) of "3,1,2". Raises ConfigurationError for anything else."""
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError:
        raise ConfigurationError(f"class order {text!r}: write class numbers as 3,1,2,0") from None
