from dataclasses import replace

import pytest

from everbit.nn import PROPOSED, STANDARD, Approximations
from everbit.zoo.cuts import NETWORKS
from everbit.zoo.memory.plan import planned
from everbit.zoo.memory.steps import Step, steps_of
from everbit.zoo.registry import build

MIB = 2**20


def steps(name: str, width: float = 1.0) -> list[Step]:
    facts = NETWORKS[name]
    return steps_of(build(name, width=width, classes=10), facts.stems[facts.stem])


def test_binarynet_by_hand() -> None:
    """The fullest moment is the backward pass of the second convolution: gradients of both sides are alive."""
    plan = planned(steps("binarynet"), 100, "adam", PROPOSED)
    weights, map_values = 14_022_016, 100 * 128 * 32 * 32
    norms = sum(step.channels for step in steps("binarynet") if step.module is not None and hasattr(step.module, "eps"))
    assert plan["weights"] == 2 * weights + 2 * 4 * norms  # 16 bits; beta and gamma in 32
    assert plan["momenta"] == 2 * weights + 2 * 4 * norms  # of one-bit gradients the second is one number
    assert plan["gradients in work"] == 2 * 2 * map_values
    assert plan["activations kept, as bits"] == map_values / 8
    assert plan["estimator masks"] == map_values / 8
    assert plan["images"] == 100 * 3072 * 4


@pytest.mark.parametrize("name", ["binarynet", "cnv", "mlp", "birealnet18", "vgg_small", "quicknet"])
def test_every_approximation_saves(name: str) -> None:
    network = steps(name, 0.25)

    def total(approximations: Approximations) -> int:
        plan = planned(network, 50, "adam", approximations)
        return sum(plan.values()) - plan["scratch"]

    proposed = total(PROPOSED)
    assert total(STANDARD) > 1.5 * proposed
    for field, value in (("dtype", "float32"), ("batch_norm", "l2"), ("weight_gradient_bits", 32), ("latent_bits", 32)):
        assert total(replace(PROPOSED, **{field: value})) >= proposed, field


def test_optimizers_in_the_order_of_what_they_remember() -> None:
    network = steps("mlp")
    sums = [
        sum(planned(network, 10, optimizer, approximations).values())
        for optimizer, approximations in (
            ("bop", Approximations(latent_bits=1)),
            ("sgd", PROPOSED),
            ("adam", Approximations(weight_gradient_bits=32)),
        )
    ]
    assert sums == sorted(sums)
    assert sums[0] < sums[1] < sums[2]


def test_signs_are_kept_once() -> None:
    """By the batch norm, the sign and the product that read them; a sum between makes the sign's bits its own."""
    chain, residual = (planned(steps(name, 0.25), 10, "adam", PROPOSED) for name in ("binarynet", "birealnet18"))
    assert chain["activations kept, as bits"] <= chain["estimator masks"]
    assert residual["activations kept, as bits"] > residual["estimator masks"]
