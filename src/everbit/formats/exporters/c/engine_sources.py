"""The engine's sources and their license, which the package carries: what every processor can run."""

from __future__ import annotations

from pathlib import Path

from everbit import _engine
from everbit.errors import ConfigurationError


def engine_sources() -> dict[str, Path]:
    """Where each source lies, by its path in the project. Raises ConfigurationError where the package lacks them."""
    folder = Path(_engine.__file__).with_name("engine_sources")
    files = {
        f"engine/{path.relative_to(folder).as_posix()}": path for path in sorted(folder.rglob("*")) if path.is_file()
    }
    if not files:
        raise ConfigurationError(f"the engine's sources are missing from {folder}: install everbit again")
    return files
