"""Models that come with the package. Needs no torch."""

from __future__ import annotations

from pathlib import Path

MODELS = Path(__file__).parent / "models"


def packaged_names() -> list[str]:
    """Names of the compiled models in the package."""
    return sorted(path.stem for path in MODELS.glob("*.everbit"))


def packaged_model(model: str | Path) -> Path:
    """The file of a packaged model by its name; any other name or path as it is."""
    return MODELS / f"{model}.everbit" if str(model) in packaged_names() else Path(model)
