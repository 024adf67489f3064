"""What each figure should reach."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

_RELATIONS: dict[str, Callable[[float, float], bool]] = {">=": operator.ge, "<=": operator.le, "=": operator.eq}


@dataclass(frozen=True)
class Goal:
    """relation: a key of _RELATIONS, between the figure and the value."""

    relation: str
    value: float

    def holds(self, figure: float) -> bool:
        return _RELATIONS[self.relation](figure, self.value)

    def __str__(self) -> str:
        return f"{self.relation} {self.value:g}"


GOALS = {
    "xnor_gemm_fraction_of_limit": Goal(">=", 0.85),
    "conv3x3_56x56x64_speedup_vs_torch_fp32": Goal(">=", 12),
    "learn_step_speedup_vs_torch_fp32.q16": Goal(">=", 4),
    "learn_step_speedup_vs_torch_fp32.q8": Goal(">=", 7),
    "learn_step_speedup_vs_torch_fp32.qbin1": Goal(">=", 7),
    "frozen_forward_speedup_vs_torch_fp32": Goal(">=", 25),
    "quicknet_speedup_vs_lce": Goal(">=", 40),
    "quicknet_speedup_vs_litert_int8_mobilenetv2": Goal(">=", 1.4),
    "table2_speedup": Goal(">=", 3),
    "binarynet_b100_adam.measured_reduction": Goal(">=", 3.7),
    "binarynet_b100_adam.plan_error": Goal("<=", 0.05),
    "binarynet_b100_adam.peak_mib": Goal("<=", 140),
    "binarynet_b100_sgd.measured_reduction": Goal(">=", 4.1),
    "binarynet_b100_sgd.plan_error": Goal("<=", 0.05),
    "binarynet_b100_bop.measured_reduction": Goal(">=", 4.8),
    "binarynet_b100_bop.plan_error": Goal("<=", 0.05),
    "mlp_b100.measured_reduction": Goal(">=", 2.8),
    "mlp_b100.plan_error": Goal("<=", 0.05),
    "cnv_b100.measured_reduction": Goal(">=", 3.9),
    "cnv_b100.plan_error": Goal("<=", 0.05),
    "birealnet18_b128.measured_reduction": Goal(">=", 3.7),
    "birealnet18_b128.plan_error": Goal("<=", 0.05),
    "binarynet_b100_step_speedup_vs_torch_standard": Goal(">=", 1),
    "binarynet_b100_step_speedup_vs_w23_prototype": Goal(">=", 15),
    "threads_2_over_1": Goal(">=", 1.7),
    "learner_peak_over_planned": Goal("=", 1),
    "learner_heap_growth_bytes": Goal("=", 0),
    "learn_step_cost_vs_classes.without_head": Goal("<=", 1.1),
    "learn_step_cost_vs_experiences.last_over_first": Goal("<=", 1.1),
}
"""By field of the result; `field.key` where the field holds several figures."""


def figures(field: str, value: object) -> dict[str, float | None]:
    """The single figures of a field that have a goal, by the name of the goal; None where there is no value."""
    named = {name: name.removeprefix(field + ".") for name in GOALS if name == field or name.startswith(field + ".")}
    return {name: value.get(key) if isinstance(value, dict) else value for name, key in named.items()}  # type: ignore[misc]
