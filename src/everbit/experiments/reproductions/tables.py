"""Reproductions that learn no stream: V24's Table 1 and Table 2, memory of W23 and R21."""

from __future__ import annotations

from dataclasses import dataclass

from everbit.benchmarks.measurements import NotMeasuredError
from everbit.experiments.reproductions.claims import Verdict
from everbit.experiments.reproductions.drawing import draw_bars
from everbit.experiments.reproductions.outcome import Outcome, Table
from everbit.experiments.reproductions.r21_memory import r21_memory_outcome
from everbit.experiments.reproductions.scales import Scale
from everbit.experiments.table1 import table1
from everbit.zoo.memory.measure import TrainingRun
from everbit.zoo.memory.report import memory_report
from everbit.zoo.summary_table import shape_text

MIB = 2**20


def table1_outcome(scale: Scale) -> Outcome:
    """V24's Table 1: parameters behind the cut."""
    result = table1()
    verdicts, rows = [], []
    for row in result["rows"]:
        paper, ours, exact = row["paper"], row["paper_convention"], row["exact"]
        name = f"{row['network']} at {shape_text(row['latent_shape'])}"
        counted = f"{ours['binary']:,} binary, {ours['other']:,} other"
        printed = f"{paper['binary']} and {paper['other']}"
        # Counts are equal to what is printed, or they are not.
        verdicts.append(Verdict(f"{name}: {printed}", counted, 0 if row["reproduces"] else -1, "row"))
        rows.append((name, printed, counted, f"{exact['binary']:,}", f"{exact['other']:,}", f"{exact['constant']:,}"))
    networks = [row[0] for row in rows]
    millions = {
        "binary": [row["exact"]["binary"] / 1e6 for row in result["rows"]],
        "other": [(row["exact"]["other"] + row["exact"]["constant"]) / 1e6 for row in result["rows"]],
    }
    return Outcome(
        "Parameters behind the cut",
        "V24, Table 1: binary and other parameters of each network behind the latent layer.",
        verdicts,
        result,
        Table(("network", "paper", "our count, its way", "exact: binary", "other", "constant"), rows),
        draw=lambda: draw_bars(networks, millions, "million parameters, counted exactly"),
        notes=(
            *(f"{name}: {text}." for name, text in result["conventions"].items()),
            *dict.fromkeys(f"Where a row differs: {row['reason']}." for row in result["rows"] if row["reason"]),
        ),
    )


TABLE2_REPEATS = {False: 3, True: 15}
"""Turns of the measurement, by whether a scale measures with care."""
TABLE2_LEAST = 2.0


def table2_outcome(scale: Scale) -> Outcome:
    """V24's Table 2: an image learned by QuickNet against int8 MobileNetV2."""
    from everbit.benchmarks.machine import describe_machine
    from everbit.benchmarks.table2 import FIELD, measure

    title = "Learning from one image: QuickNet against MobileNetV2"
    paper = (
        "V24, Table 2: forward and backward of one 224-pixel image take 2.0 to 2.2 times less on QuickNet than on int8 "
        "MobileNetV2 (Raspberry Pi 3B: 160 + 55 against 340 + 134 ms, 4B: 105 + 38 against 225 + 90 ms)."
    )
    headings = ("part", "milliseconds")
    try:
        result = measure(TABLE2_REPEATS[scale.measured], 1)
    except NotMeasuredError as error:
        return Outcome(title, paper, [], {}, Table(headings, []), missing=str(error))
    speedup = float(str(result[FIELD]))
    table: dict[str, dict[str, dict[str, float]]] = result["table2"]  # type: ignore[assignment]
    times = {name: quartiles["median"] for name, quartiles in table["milliseconds"].items()}
    shown = {name: [times[key]] for name, key in (("QuickNet, everbit", "everbit"), ("MobileNetV2", "peer"))}
    verdict = Verdict(
        f"QuickNet learns an image {TABLE2_LEAST:g} times as fast or more",
        f"{speedup:.2f} times",
        speedup - TABLE2_LEAST,
        "times",
    )
    return Outcome(
        title,
        paper,
        [verdict],
        {**result, "machine": describe_machine()},
        Table(headings, [(name.replace("_", " "), f"{value:.2f}") for name, value in times.items()]),
        draw=lambda: draw_bars(["forward and learn step"], shown, "milliseconds an image, one thread"),
        notes=(
            "Measured on this machine, not on a Raspberry Pi; only the ratio is compared.",
            "The peer is LiteRT's int8 forward pass and PyTorch's float32 backward pass of the last block, its own "
            "forward pass taken off.",
        ),
    )


@dataclass(frozen=True)
class MemoryCase:
    """A training of W23's and the reduction it reports, as a range."""

    model: str
    batch: int
    optimizer: str
    reduction: tuple[float, float]
    name: str


MEMORY_CASES = (
    MemoryCase("binarynet", 100, "adam", (3.71, 3.71), "BinaryNet, Adam"),
    MemoryCase("binarynet", 100, "sgd", (4.12, 4.12), "BinaryNet, SGD"),
    MemoryCase("binarynet", 100, "bop", (4.79, 4.79), "BinaryNet, Bop"),
    MemoryCase("mlp", 100, "adam", (2.78, 2.78), "MLP, Adam"),
    MemoryCase("cnv", 100, "adam", (3.9, 4.17), "CNV, Adam"),
)
TOLERANCE = 0.05
"""By how much a count may miss the reported reduction: the paper leaves the masks of the estimators out, we do not."""


def w23_memory_outcome(scale: Scale) -> Outcome:
    """W23's memory of a training step, standard against proposed."""
    verdicts, rows, reports = [], [], {}
    bars: dict[str, list[float]] = {"standard (W23's count)": [], "proposed (W23's count)": [], "everbit, planned": []}
    for case in MEMORY_CASES:
        run = TrainingRun(case.model, case.batch, case.optimizer)
        report = memory_report(run, measured=scale.measured)
        # As the paper counts: without the masks of the estimators.
        counted = [variable for variable in report["w23"] if "W23 leaves out" not in variable["name"]]
        standard, proposed = (sum(variable[kind] for variable in counted) / MIB for kind in ("standard", "proposed"))
        planned = report["planned"]["total"] / MIB
        for values, value in zip(bars.values(), (standard, proposed, planned), strict=True):
            values.append(value)
        reports[case.name] = report
        low, high = case.reduction
        ratio = standard / proposed
        miss = max(low / ratio, ratio / high) - 1
        text = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        verdicts.append(
            Verdict(f"{case.name}: {text} times less", f"{ratio:.2f} times", 100 * (TOLERANCE - miss), "percent")
        )
        measured = ""
        if scale.measured:
            measured = f"{report['measured']['peak_bytes'] / MIB:.0f}"
            reduction = report["measured_reduction"]
            verdicts.append(
                Verdict(
                    f"{case.name}, measured against PyTorch: {low:g} times less",
                    f"{reduction:.1f} times",
                    reduction - low,
                    "times",
                )
            )
        rows.append((case.name, f"{standard:.1f}", f"{proposed:.1f}", f"{ratio:.2f}", f"{planned:.0f}", measured))
    names = [case.name for case in MEMORY_CASES]
    return Outcome(
        "Memory of training from scratch",
        "W23: kept activations of one bit, gradients of one bit and 16-bit weights make a training step 2.8 to 4.8 "
        "times smaller.",
        verdicts,
        {"reports": reports},
        Table(("training", "standard, MiB", "proposed, MiB", "ratio", "everbit planned, MiB", "measured, MiB"), rows),
        draw=lambda: draw_bars(names, bars, "MiB of one training step, batch 100"),
        notes=("Counts follow W23's rules for its variables; everbit's plan counts every tensor alive at once.",),
    )


TABLES = {
    "table1": table1_outcome,
    "table2": table2_outcome,
    "w23-memory": w23_memory_outcome,
    "r21-memory": r21_memory_outcome,
}
