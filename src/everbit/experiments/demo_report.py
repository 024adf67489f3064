"""The demo's report: one HTML file that needs nothing but itself."""

from __future__ import annotations

import base64
import io
import platform
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from numpy.typing import NDArray
from PIL import Image

from everbit.data.stream import Experience, Stream
from everbit.experiments.byte_size import byte_size
from everbit.experiments.charts import bars, confusion_cells, curve_chart

TEMPLATES = Path(__file__).parent / "templates"
SAMPLES = 6
"""Pictures shown of each class."""


def demo_report(result: dict[str, Any], stream: Stream) -> str:
    """The report as HTML.

    result: of `demo_result`. stream: where the sample pictures come from.
    """
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": _percent, "size": _size, "milliseconds": _milliseconds}
    learners = result["learners"]
    seen = np.cumsum([len(experience["classes"]) for experience in result["experiences"]])
    return environment.get_template("report.html").render(
        result=result,
        curves=curve_chart({name: learner["accuracy_after"] for name, learner in learners.items()}),
        ceiling=curve_chart({"best possible": (seen / len(stream.class_names)).tolist()}).curves[0],
        cells=confusion_cells(result["confusion_matrix"]["counts"]),
        seen=seen.tolist(),
        memory_bars=bars(memory_parts(learners["lr_cwr"]["memory"])),
        latent_bars=bars(result["latents"]["bytes"]),
        samples=[_samples(stream, experience) for experience in stream.train_stream],
        machine=f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}",
    )


def memory_parts(memory: dict[str, int]) -> dict[str, int]:
    """A learner's memory by what it is for; the parts add up to `memory["total"]`."""
    return {
        "replay memory": memory["replay"],
        "weights that learn": memory["persistent"] - memory["replay"],
        "latents of the current experience": memory["experience"],
        "activations and gradients of a mini-batch": memory["shared"],
        "tables": memory["fixed"],
    }


def _samples(stream: Stream, experience: Experience) -> list[tuple[str, str]]:
    """Name and picture strip of each class of an experience."""
    return [
        (stream.class_names[label], _png_strip(experience.images[experience.labels == label][:SAMPLES]))
        for label in experience.classes
    ]


def _png_strip(images: NDArray[np.uint8]) -> str:
    """Images [N, H, W, channels] side by side, as the data URI of a PNG; gray where all channels agree."""
    strip = np.concatenate(list(images), axis=1)
    gray = bool((strip == strip[..., :1]).all())
    content = io.BytesIO()
    Image.fromarray(strip[..., 0] if gray else strip).save(content, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(content.getvalue()).decode()


def _size(count: int) -> str:
    return byte_size(count).replace(" ", "\u00a0")


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f}%"


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms"
