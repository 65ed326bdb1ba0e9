"""The documents of the policy language agree with the code."""

from __future__ import annotations

import runpy
from pathlib import Path


def test_the_table_of_fields_is_made_from_the_fields(root: Path) -> None:
    script = runpy.run_path(str(root / "docs/policy_fields.py"))
    written = (root / "docs/policy-fields.md").read_text(encoding="utf-8")
    assert written == script["page"](), "run docs/policy_fields.py"
