"""The documents of the policy language agree with the code."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from paceline.policy.expressions.fields import FIELDS


def test_the_table_of_fields_is_made_from_the_fields(root: Path) -> None:
    script = runpy.run_path(str(root / "docs/policy_fields.py"))
    written = (root / "docs/policy-fields.md").read_text(encoding="utf-8")
    assert written == script["page"](), "run docs/policy_fields.py"


def test_the_page_on_semantics_names_the_source_of_every_field_of_an_instance(root: Path) -> None:
    page = (root / "docs/reference/policy-semantics.md").read_text(encoding="utf-8")
    section = page.split("## What a router knows\n")[1].split("\n### ")[0]
    rows = re.findall(r"^\| (`.*) \| (kept|known|reported)[^|]* \|", section, flags=re.MULTILINE)
    written = [
        (name, source) for names, source in rows for name in re.findall(r"`(\w+)", names.split(" | ")[0])
    ]
    declared = [(name, meaning.source) for (space, name), meaning in FIELDS.items() if space == "inst"]
    assert sorted(written) == sorted(declared)
