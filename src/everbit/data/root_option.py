"""The option of every command that reads a data set: where they lie."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Root = Annotated[Path | None, typer.Option(help="Folder of the data sets; default EVERBIT_DATA, else ./data.")]
