"""Models and pretrained weights that come with the package. Needs no torch."""

from __future__ import annotations

from pathlib import Path

from everbit.errors import FormatError

MODELS = Path(__file__).parent / "models"
WEIGHTS = Path(__file__).parent / "weights"


def packaged_backbone(network: str) -> Path | None:
    """The packaged weights of a network of the zoo at half width, with a model card beside them; None without any."""
    path = WEIGHTS / f"{network}_half.safetensors"
    return path if path.is_file() else None


def packaged_names() -> list[str]:
    """Names of the compiled models in the package."""
    return sorted(path.stem for path in MODELS.glob("*.everbit"))


def packaged_model(model: str | Path) -> Path:
    """The file of a packaged model by its name; any other path as it is. Raises FormatError where there is neither."""
    if str(model) in packaged_names():
        return MODELS / f"{model}.everbit"
    path = Path(model)
    if not path.exists():
        names = ", ".join(packaged_names())
        raise FormatError(
            f"cannot read the model file {model} (there is none): give the path of an .everbit file, or a packaged "
            f"model's name ({names})"
        )
    return path
