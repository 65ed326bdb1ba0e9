"""What the tests of traces share: files written on the spot, and the folder of real traces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

Written: TypeAlias = Callable[..., Path]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Return a function that writes bytes or text to a file and gives its path."""

    def write(content: str | bytes, name: str = "file.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture(scope="session")
def real(shared: Path) -> Path:
    """Return the folder of real traces."""
    return shared / "traces"
