"""Models that come with the package. Needs no torch."""

from __future__ import annotations

from pathlib import Path

from everbit.errors import FormatError

MODELS = Path(__file__).parent / "models"


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
