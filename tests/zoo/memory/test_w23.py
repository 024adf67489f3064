import pytest

from everbit.zoo.cuts import NETWORKS
from everbit.zoo.memory.steps import Step, steps_of
from everbit.zoo.memory.w23 import w23_count
from everbit.zoo.registry import build

MIB = 2**20
LEFT_OUT = "estimator masks, which W23 leaves out"


def steps(name: str) -> list[Step]:
    facts = NETWORKS[name]
    return steps_of(build(name, classes=10), facts.stems[facts.stem])


def totals(name: str, batch: int, optimizer: str) -> tuple[float, float]:
    variables = [variable for variable in w23_count(steps(name), batch, optimizer) if variable.name != LEFT_OUT]
    return sum(v.standard for v in variables) / MIB, sum(v.proposed for v in variables) / MIB


def test_binarynet_is_w23_s_table_line_by_line() -> None:
    """docs/low_memory.md: W23 counts the shifts of the batch norms among the weights, some 0.02 MiB."""
    expected = {
        "activations kept for the backward pass": (111.33, 3.48),
        "activations in work (Y, dX)": (50, 25),
        "gradients in work (dY)": (50, 25),
        "weights": (53.49, 26.74),
        "weight gradients": (53.49, 1.67),
        "momenta": (106.98, 53.49),
        "pool masks": (87.5, 2.73),
    }
    counted = {v.name: (v.standard / MIB, v.proposed / MIB) for v in w23_count(steps("binarynet"), 100, "adam")}
    masks = counted.pop(LEFT_OUT)
    assert masks[0] == 0
    assert masks[1] == pytest.approx(3.48, abs=0.05)
    assert counted.keys() == expected.keys()
    for name, values in expected.items():
        assert counted[name] == pytest.approx(values, abs=0.01), name


@pytest.mark.parametrize(
    ("name", "optimizer", "reduction", "within"),
    [
        ("binarynet", "adam", 3.71, 0.01),
        ("binarynet", "sgd", 4.12, 0.01),
        ("binarynet", "bop", 4.79, 0.1),  # how W23 keeps Bop's weights is not said
        ("mlp", "adam", 2.78, 0.1),
        ("cnv", "adam", 3.9, 0.1),
        ("cnv", "sgd", 4.17, 0.1),
    ],
)
def test_reductions_are_w23_s(name: str, optimizer: str, reduction: float, within: float) -> None:
    standard, proposed = totals(name, 100, optimizer)
    assert standard / proposed == pytest.approx(reduction, abs=within)


def test_activations_grow_with_the_batch_and_weights_do_not() -> None:
    small, large = (w23_count(steps("mlp"), batch, "adam") for batch in (10, 20))
    for before, after in zip(small, large, strict=True):
        grows = before.name not in ("weights", "weight gradients", "momenta")
        assert after.proposed == before.proposed * (2 if grows else 1), before.name
        assert after.standard == before.standard * (2 if grows else 1), before.name
