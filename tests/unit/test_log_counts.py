"""The numbers of decision logs that documents name are those of the logs in the tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "tests/conformance/logs"
# The logs of instances of SGLang's disaggregation, alone and together.
APART = ("prefill-", "decode-", "pair-")


def count(folder: str, *prefixes: str) -> int:
    """Count the logs in the folders of a name, or those of them whose names begin with one of some words."""
    return sum(path.name.startswith(prefixes or "") for path in LOGS.glob(f"{folder}/*.json.gz"))


def said(document: str, row: str) -> int:
    """Return the number of logs that a row of a table ends with."""
    line = next(
        one for one in (ROOT / document).read_text(encoding="utf-8").splitlines() if one.startswith(row)
    )
    found = re.search(r"(?:✓ |\| )(\d+)(?: logs)? \|", line)
    assert found is not None, line
    return int(found[1])


@pytest.mark.parametrize(
    ("row", "logs"),
    [
        ("| `vllm` |", count("vllm*") - count("vllm-v0")),
        ("| `vllm_v0` |", count("vllm-v0")),
        ("| `layered_prefill`", count("layered")),
        ("| `sglang` |", count("sglang") - count("sglang", *APART)),
        ("| `sglang_disaggregated` |", count("sglang", *APART)),
    ],
)
def test_the_guide_to_schedulers_counts_the_logs_of_a_policy(row: str, logs: int) -> None:
    assert said("docs/guides/schedulers.md", row) == logs


@pytest.mark.parametrize(
    ("row", "logs"),
    [("| decisions of vLLM", count("vllm*")), ("| decisions of SGLang", count("sglang"))],
)
def test_the_readme_counts_the_logs_of_an_engine(row: str, logs: int) -> None:
    assert said("README.md", row) == logs
