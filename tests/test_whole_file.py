"""Writing a file whole or not at all: what is said where it fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from everbit.errors import OutputError
from everbit.whole_file import replacing


@pytest.mark.parametrize(
    ("code", "advice"),
    [(errno.ENOSPC, "free space, or choose another path"), (errno.EACCES, "choose another path")],
)
def test_the_error_names_the_file_and_what_to_do(code: int, advice: str, tmp_path: Path) -> None:
    """And not the file beside it, which nobody asked for."""
    path = tmp_path / "a.bin"
    with pytest.raises(OutputError) as caught, replacing(path) as partial:
        raise OSError(code, os.strerror(code), str(partial))
    assert str(caught.value) == f"cannot write {path} ({os.strerror(code)}): {advice}"
    assert not list(tmp_path.iterdir())
