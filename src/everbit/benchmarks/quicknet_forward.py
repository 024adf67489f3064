"""QuickNet on one image of 224x224 pixels, from its bytes to 1000 logits, against what people run today."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from everbit import engine
from everbit.benchmarks.lite_models import MOBILENET_V2, QUICKNET, lce_forward, litert_forward, model_file
from everbit.benchmarks.measurements import NotMeasuredError
from everbit.benchmarks.quicknet import images, random_program
from everbit.benchmarks.timing import clock_for, compared, interleaved, several
from everbit.compile.image import program_image
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings

LCE_FIELD = "quicknet_speedup_vs_lce"
LITERT_FIELD = "quicknet_speedup_vs_litert_int8_mobilenetv2"
WIDTHS = "8,8,8,8"
IMAGES = 32
"""In a turn, one after the other as a camera gives them; of Larq Compute Engine two, which last as long."""
LCE_IMAGES = 2


def everbit_forward(threads: int) -> Callable[[], object]:
    """One call is one image: all layers, then the 1000 rows of the network's own classifier."""
    program = random_program("pool", WIDTHS, keep_classifier=True)
    settings = Settings("cwr", classes=len(program.head.labels))
    learner = Learner(program, settings, WIDTHS)
    native = engine.NativeLearner(program_image(program), {**learner._options(0, 1), "threads": threads})
    image = images(1)
    return lambda: native.logits(image)


def measure(repeats: int, threads: int) -> dict[str, object]:
    """Speedups over Larq Compute Engine on the same network, and over int8 MobileNetV2 on LiteRT (V24's comparator)."""
    real = (images(1) / 127.5 - 1).astype(np.float32)
    contenders: dict[str, Callable[[], object]] = {"everbit": several(everbit_forward(threads), IMAGES)}
    missing: dict[str, str] = {}
    for field, name, make, count in (
        (LCE_FIELD, QUICKNET, lce_forward, LCE_IMAGES),
        (LITERT_FIELD, MOBILENET_V2, litert_forward, IMAGES),
    ):
        try:
            contenders[field] = several(make(model_file(name), real, threads), count)
        except NotMeasuredError as error:
            missing[field] = str(error)
    if len(missing) == 2:
        raise NotMeasuredError("; ".join(missing.values()))
    times = interleaved(contenders, repeats, clock_for(threads))
    counts = {"everbit": IMAGES, LCE_FIELD: LCE_IMAGES, LITERT_FIELD: IMAGES}
    an_image = {name: seconds / counts[name] for name, seconds in times.items()}
    details = {field: compared(an_image, field, "everbit") for field in (LCE_FIELD, LITERT_FIELD) if field in times}
    return {
        LCE_FIELD: details.get(LCE_FIELD, {}).get("ratio"),
        LITERT_FIELD: details.get(LITERT_FIELD, {}).get("ratio"),
        "quicknet_forward": {"images": counts, "widths": WIDTHS, **details},
        "missing": missing,
    }
