"""The table of measurements: what each fills in, and what it needs."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec


class NotMeasuredError(Exception):
    """Why a measurement cannot be made here; its fields stay null."""


@dataclass(frozen=True)
class Measurement:
    """module: of `everbit.benchmarks`, with a function `measure(repeats, threads)` that returns the fields and more.

    fields: the figures, null in the result where they could not be measured. peer: measured against something else.
    needs_torch: as the peer, or to compile the network that is measured. foreign: needs programs and networks of
    others, so that only `everbit bench peers` runs it. training: of training from scratch; `everbit bench training`.
    """

    module: str
    fields: tuple[str, ...]
    peer: bool = False
    needs_torch: bool = False
    foreign: bool = False
    training: bool = False

    def run(self, repeats: int, threads: int) -> dict[str, object]:
        """Raises NotMeasuredError where something is missing."""
        if self.needs_torch and find_spec("torch") is None:
            raise NotMeasuredError('needs PyTorch: pip install "everbit[train]"')
        fields: dict[str, object] = import_module(f"everbit.benchmarks.{self.module}").measure(repeats, threads)
        return fields


TRAINED = {
    "binarynet_b100_adam": ("binarynet", 100, "adam"),
    "binarynet_b100_sgd": ("binarynet", 100, "sgd"),
    "binarynet_b100_bop": ("binarynet", 100, "bop"),
    "mlp_b100": ("mlp", 100, "adam"),
    "cnv_b100": ("cnv", 100, "adam"),
    "birealnet18_b128": ("birealnet18", 128, "adam"),
}
"""Network, images of a step and optimizer of each training whose memory is measured, by field."""

MEASUREMENTS = {
    "xnor_gemm": Measurement("xnor_gemm", ("xnor_gemm_fraction_of_limit",)),
    "binary_convolution": Measurement(
        "binary_convolution", ("conv3x3_56x56x64_speedup_vs_torch_fp32",), peer=True, needs_torch=True
    ),
    "learn_step": Measurement("learn_step", ("learn_step_speedup_vs_torch_fp32",), peer=True, needs_torch=True),
    "frozen_forward": Measurement(
        "frozen_forward", ("frozen_forward_speedup_vs_torch_fp32",), peer=True, needs_torch=True
    ),
    "quicknet_forward": Measurement(
        "quicknet_forward",
        ("quicknet_speedup_vs_lce", "quicknet_speedup_vs_litert_int8_mobilenetv2"),
        peer=True,
        needs_torch=True,
        foreign=True,
    ),
    "table2": Measurement("table2", ("table2_speedup",), peer=True, needs_torch=True, foreign=True),
    "thread_scaling": Measurement("thread_scaling", ("threads_2_over_1",), needs_torch=True),
    "learner_memory": Measurement(
        "learner_memory",
        ("learner_peak_bytes", "planned_bytes", "learner_peak_over_planned", "learner_heap_growth_bytes"),
    ),
    "learn_step_growth": Measurement(
        "learn_step_growth", ("learn_step_cost_vs_classes", "learn_step_cost_vs_experiences")
    ),
    "training_memory": Measurement("training_memory", tuple(TRAINED), peer=True, needs_torch=True, training=True),
    "training_step": Measurement(
        "training_step",
        ("binarynet_b100_step_speedup_vs_torch_standard", "binarynet_b100_step_speedup_vs_w23_prototype"),
        peer=True,
        needs_torch=True,
        training=True,
    ),
}
"""By name, in the order of running."""
