"""Where and with what a measurement was made."""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from everbit import engine

PACKAGES = ("everbit", "numpy", "torch")


def describe_machine() -> dict[str, object]:
    """JSON-able facts: processor, instruction set, cores, load, system, versions, date (UTC)."""
    return {
        "cpu": _cpu_model(),
        "isa": engine.active_isa(),
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def _cpu_model() -> str:
    """The processor's name; its family and model numbers too, since a virtual machine may hide the name."""
    found: dict[str, str] = {}
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            found.setdefault(key.strip(), value.strip())
    name = found.get("model name") or found.get("Model") or platform.processor() or platform.machine()
    numbers = [f"{key} {found[key]}" for key in ("cpu family", "model", "stepping") if key in found]
    return ", ".join([name, *numbers])


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
