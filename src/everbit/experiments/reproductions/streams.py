"""Reproductions that learn streams: a table of figures, each a few series on a few data sets and networks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from everbit.experiments.configuration import Configuration
from everbit.experiments.reproductions.backbones import EFFICIENTNET_LITE0, Backbone
from everbit.experiments.reproductions.claims import Beats, Claim, Keeps
from everbit.experiments.reproductions.scales import Amount, Scale
from everbit.learner.settings import preset_options
from everbit.quantize.widths import Widths


@dataclass(frozen=True)
class Panel:
    """A data set learned class by class, on a network of the zoo.

    backbone: the network's weights where the package has none. options: of the network and of learning on this data.
    """

    data: str
    model: str
    backbone: Backbone | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.model} on {self.data}"

    def weights(self, root: Path | None) -> Path | None:
        """Where the weights are, None where the package has them. root: the folder of the data sets."""
        return None if self.backbone is None else self.backbone.path(root)


@dataclass(frozen=True)
class StreamFigure:
    """One figure.

    series: the options of each, beside the figure's and the panel's. claims: about their final accuracies. networks:
    what a reader has to know of them.
    """

    title: str
    paper: str
    panels: tuple[Panel, ...]
    series: dict[str, dict[str, Any]]
    claims: tuple[Claim, ...]
    options: dict[str, Any] = field(default_factory=dict)
    networks: str = "Networks are those of the package, at half width, pretrained on Tiny ImageNet at 32x32."

    def missing(self, root: Path | None) -> str:
        """What is needed and not there, and how to get it; empty where all is. root: the folder of the data sets."""
        backbones = dict.fromkeys(panel.backbone for panel in self.panels if panel.backbone is not None)
        return " ".join(filter(None, (backbone.missing(root) for backbone in backbones)))

    def configurations(self, panel: Panel, scale: Scale) -> list[Configuration]:
        """One for each series."""
        amount = scale.amounts.get(panel.data, Amount())
        common = {
            "scenario": "nc",
            "data": panel.data,
            "model": panel.model,
            "images_per_class": amount.train,
            "test_images_per_class": amount.test,
            **panel.options,
            **self.options,
        }
        return [Configuration(**{**common, **options}) for options in self.series.values()]


def _bits(widths: str, **options: Any) -> dict[str, Any]:
    return {"bits": Widths.parse(widths), **options}


LR_WIDTHS = {
    "LR+CWR* float": _bits("8,16,16,1", learner="float"),
    "LR+CWR* 32 bits": _bits("8,16,32,1"),
    "LR+CWR* 16 bits": _bits("8,16,16,1"),
    "LR+CWR* 8 bits": _bits("8,8,8,1"),
}
CWR_WIDTHS = {
    "CWR* float": _bits("8,16,16,1", learner="float_cwr"),
    "CWR* 32 bits": _bits("8,16,32,1", learner="cwr"),
    "CWR* 16 bits": _bits("8,16,16,1", learner="cwr"),
    "CWR* 8 bits": _bits("8,8,8,1", learner="cwr"),
}
WIDTH_CLAIMS: tuple[Claim, ...] = (
    *(Beats(ours, theirs) for ours, theirs in zip(LR_WIDTHS, CWR_WIDTHS, strict=True)),
    Keeps("LR+CWR* 32 bits", "LR+CWR* float", 1),
    Keeps("LR+CWR* 16 bits", "LR+CWR* float", 1),
    Beats("LR+CWR* 16 bits", "LR+CWR* 8 bits", 1),
)

BINARY_WIDTHS = {
    "q_bin 16": _bits("8,16,16,1"),
    "q_bin 4": _bits("8,4,16,1"),
    "q_bin 1": _bits("8,1,16,1"),
}

LATENTS = {
    "float latents": _bits("8,16,16,1", learner="float_latents"),
    "1-bit latents": _bits("8,16,16,1", learner="float"),
    "30 a class": _bits("8,16,16,1"),
    "20 a class": _bits("8,16,16,1", replay_per_class=20),
    "15 a class": _bits("8,16,16,1", replay_per_class=15),
}

R21_LATENTS = {
    "float latents": _bits("8,16,16,8", learner="float_latents"),
    **{f"{bits}-bit latents": _bits(f"8,16,16,{bits}", learner="float_network") for bits in (8, 7, 6, 4, 2, 1)},
    "8-bit latents, integers": _bits("8,16,16,8"),
}

R21_PANELS = tuple(
    Panel(data, "efficientnet_lite0", EFFICIENTNET_LITE0, {"width": 1.0, "image_size": 64, "cut": "block16"})
    for data in ("gtsrb", "coil")
)

PANELS = (
    Panel("cifar10", "birealnet18"),
    Panel("cifar10", "reactnet18"),
    Panel("cifar100", "birealnet18"),
    Panel("cifar100", "reactnet18"),
    Panel("coil", "quicknet"),
    Panel("gtsrb", "quicknet"),
)

_WIDTHS_CLAIM = (
    "With latent replay a network ends above CWR* at every width of the backward pass; 32 and 16 bits come near "
    "floating point, 8 bits fall visibly."
)

STREAM_FIGURES = {
    **{
        f"fig{number}": StreamFigure(
            f"Widths of the backward pass, {panel.name}",
            _WIDTHS_CLAIM,
            (panel,),
            {**LR_WIDTHS, **CWR_WIDTHS},
            WIDTH_CLAIMS,
        )
        for number, panel in enumerate(PANELS, start=3)
    },
    "fig9": StreamFigure(
        "Latent weights of binary layers in fewer bits",
        "Latent weights of 4 bits cost little, and with 1 bit, where binary weights stay as they are, accuracy keeps.",
        PANELS,
        BINARY_WIDTHS,
        (Keeps("q_bin 4", "q_bin 16", 2), Keeps("q_bin 1", "q_bin 16", 2)),
    ),
    "fig10": StreamFigure(
        "What the replay memory holds",
        "Latents of one bit cost little against floating-point ones, and half as many of each class cost little more.",
        PANELS,
        LATENTS,
        (
            Keeps("1-bit latents", "float latents", 2),
            Keeps("20 a class", "30 a class", 1.5),
            Keeps("15 a class", "30 a class", 1.5),
        ),
    ),
    "r21-latents": StreamFigure(
        "Quantized latents, trained in floating point",
        "R21: replaying latents of 8 bits costs 0.3 points against floating-point ones, latents of 7 bits about 1.",
        R21_PANELS,
        R21_LATENTS,
        (
            Keeps("8-bit latents", "float latents", 0.3),
            Keeps("7-bit latents", "float latents", 1),
            Keeps("8-bit latents, integers", "float latents", 1),
        ),
        networks="EfficientNet-Lite0 at full width, its weights those published for ImageNet.",
    ),
    "presets": StreamFigure(
        "Presets against the paper's settings",
        "Not in a paper: settings chosen on class orders of their own, at the same replay memory, against V24's.",
        (PANELS[0], PANELS[2], PANELS[5]),
        {
            "V24's settings": preset_options("v24"),
            "preset accurate": preset_options("accurate"),
            "preset accurate_2bit": _bits("8,16,16,2", **preset_options("accurate_2bit")),
        },
        (Beats("preset accurate", "V24's settings", 3), Beats("preset accurate_2bit", "V24's settings", 3)),
    ),
}
"""fig3 to fig8: V24's comparison of widths, one for each data set and network. fig9, fig10: its comparisons of latent
weights and of replay memories, on all of them. V24 prints no accuracies, so its orderings are what is claimed; COIL and
GTSRB stand where it has CORe50."""
