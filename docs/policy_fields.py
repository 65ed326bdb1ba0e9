"""Write the table of fields, after a change of them: `.venv/bin/python docs/policy_fields.py`."""

from __future__ import annotations

from pathlib import Path

from paceline.policy.expressions.fields import FIELDS, Meaning

PAGE = Path(__file__).resolve().parent / "policy-fields.md"

_TITLES = {
    "req": "Of a request: `req`",
    "oracle": "What no real scheduler knows: `oracle`",
    "inst": "Of an instance: `inst`, `inst.here`, `inst.there`",
    "block": "Of a cached block: `block`",
    "slo": "Of the policy's objectives: `slo`",
}
_INTRODUCTION = """# What a policy can look at

Made by `docs/policy_fields.py` from the definitions. The [guide](guides/policies.md) says where each may be
used, and [policy semantics](reference/policy-semantics.md) as of which moment each is read. Times are in
seconds. *Drifts* marks what changes from step to step: a queue key made of it needs a `Refresh`, unless a
comparison, a `//` by a constant or `ilog2` turns it into steps.
"""


def page() -> str:
    """Return the page."""
    parts = [_INTRODUCTION]
    for space, title in _TITLES.items():
        parts.append(f"\n## {title}\n\n| field | unit | drifts | |\n|---|---|---|---|\n")
        parts += [_row(meaning) for (owner, _), meaning in FIELDS.items() if owner == space]
    return "".join(parts)


def _row(meaning: Meaning) -> str:
    given = {"nothing": "", "request": "(req)"}.get(meaning.takes, f'("{meaning.takes}")')
    unit = meaning.unit or {"truth": "true or false", "number": ""}.get(meaning.kind, "a name")
    drifts = "yes" if meaning.drifts else ""
    return f"| `{meaning.space}.{meaning.name}{given}` | {unit} | {drifts} | {meaning.text} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(page(), end="")
