"""Every case that the search has found keeps all promises: the name of its file says which it broke.

A case without a meaning is refused: the name of its file begins with ``refused``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from search.case import Case
from search.process import Worker

FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as one:
        yield one


@pytest.mark.parametrize("path", FOUND, ids=[path.stem for path in FOUND])
def test_a_case_once_found_keeps_every_promise(path: Path, worker: Worker) -> None:
    failures, refused = worker.check(Case.from_json(path.read_bytes()))
    assert failures == []
    assert (refused is not None) == path.stem.startswith("refused"), refused
