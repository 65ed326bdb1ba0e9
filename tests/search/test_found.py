"""Every case that the search has found keeps all promises: its file's name says which it broke."""

from __future__ import annotations

from pathlib import Path

import pytest

from search.case import Case
from search.process import Worker

FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))


@pytest.mark.parametrize("path", FOUND, ids=[path.stem for path in FOUND])
def test_a_case_once_found_keeps_every_promise(path: Path) -> None:
    with Worker() as worker:
        failures, _ = worker.check(Case.from_json(path.read_bytes()))
    assert failures == []
