"""What a reproduction leaves in its folder: NAME.json, NAME.svg, NAME.png, NAME.html, and an index of several."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from everbit.benchmarks.machine import describe_machine
from everbit.experiments.reproductions.outcome import Outcome
from everbit.whole_file import replacing

TEMPLATES = Path(__file__).parent.parent / "templates"
PRINT_DPI = 200


def write_outcome(name: str, outcome: Outcome, command: str, folder: Path) -> dict[str, Any]:
    """Writes a reproduction's files, each whole or not at all. Returns its content, as in NAME.json."""
    content = {
        "name": name,
        "title": outcome.title,
        "paper": outcome.paper,
        "command": command,
        "missing": outcome.missing,
        "verdicts": [verdict.described() for verdict in outcome.verdicts],
        "notes": list(outcome.notes),
        "table": {"headings": list(outcome.table.headings), "rows": [list(row) for row in outcome.table.rows]},
        "machine": describe_machine(),
        "numbers": outcome.numbers,
    }
    pictures = {} if outcome.draw is None else _pictures(outcome)
    for kind, picture in pictures.items():
        with replacing(folder / f"{name}.{kind}") as partial:
            partial.write_bytes(picture)
    _write(folder / f"{name}.json", json.dumps(content, indent=1) + "\n")
    image = base64.b64encode(pictures["svg"]).decode("ascii") if pictures else ""
    _write(folder / f"{name}.html", _rendered("reproduction.html", result=content, image=image))
    return content


def write_index(contents: list[dict[str, Any]], command: str, folder: Path) -> Path:
    """The page of all claims of several reproductions, with links to theirs."""
    path = folder / "index.html"
    _write(path, _rendered("reproductions.html", results=contents, command=command, machine=describe_machine()))
    return path


def _pictures(outcome: Outcome) -> dict[str, bytes]:
    assert outcome.draw is not None
    figure = outcome.draw()
    pictures = {}
    for kind in ("svg", "png"):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, dpi=PRINT_DPI)
        pictures[kind] = buffer.getvalue()
    return pictures


def _rendered(template: str, **values: Any) -> str:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)


def _write(path: Path, text: str) -> None:
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
