"""Documents that a report takes are checked field by field."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.errors import ConfigError
from paceline.report.page.assemble import _one_line
from paceline.report.sections.capacities import document_of
from paceline.report.sections.comparison import comparison_document

POINT = {"rate": 1.0, "gpu_rate": 0.5, "attainment": 0.9, "passes": True}
FIGURE = {"policy": "b", "metric": "ttft", "figure": "p50", "value": 1.0, "low": None, "high": None}
WHOLE = {
    "baseline": "a",
    "method": "bootstrap",
    "confidence": 0.95,
    "warmup_s": 0.0,
    "warmup_requests": [0],
    "requests": [20],
    "table": [FIGURE],
}


def test_documents_as_the_commands_print_them_pass() -> None:
    assert document_of("x", {"curve": [POINT], "more": 1}) == {"curve": [POINT], "more": 1}
    assert comparison_document(WHOLE) == WHOLE


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"curve": [POINT | {"rate": "x"}]}, r"Expected `float`, got `str` - at `\$\.curve\[0\]\.rate`"),
        ({"curve": []}, "curve has no rows"),
        ({"curve": [{"rate": 1.0}]}, "missing required field `gpu_rate`"),
        ({"curve": [POINT], "slo": {"ttft": "fast"}}, r"at `\$\.slo\[\.\.\.\]`"),
        (3, "was int"),
    ],
)
def test_a_capacity_that_is_damaged_says_where(document: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"capacity 'x' must be what .*{message}"):
        document_of("x", document)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"table": [FIGURE | {"policy": {"x": 1}}]}, r"at `\$\.table\[0\]\.policy`"),
        ({"requests": [0.5]}, r"at `\$\.requests\[0\]`"),
        ({"table": []}, "table has no rows"),
    ],
)
def test_a_comparison_that_is_damaged_says_where(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"comparison must be what .*{message}"):
        comparison_document(WHOLE | change)


def test_line_separators_of_unicode_do_not_reach_the_charts() -> None:
    assert _one_line({"a\u2028": ["b\u2029", 1, {"c": "d"}]}) == {"a↵": ["b↵", 1, {"c": "d"}]}
