"""Write the page of the columns of results, after a change of them: `.venv/bin/python docs/columns.py`."""

from __future__ import annotations

from pathlib import Path

from paceline.result.columns import SCHEMA
from paceline.result.declared import DEFINITIONS, ENGINE

PAGE = Path(__file__).resolve().parent / "columns.md"

_INTRODUCTION = """# The columns of a result

Made by `docs/columns.py` from the declarations. `result.requests` has these columns, then those of the
trace; `result.definitions` has the same in Python. [Metrics](metrics.md) says how the latencies relate and
where other tools differ. Times are in seconds; a moment, a latency or a quality that a request does not have
is null, a part or a count 0.

| column | type | | filled in replays with |
|---|---|---|---|
"""

_WITH = {
    "always": "",
    "used": "",
    "reasons": "reasoning tokens in the trace",
    "moves": "migrations in the policy",
    "paced": "a pace",
    "asked": "a pace with a `ttft`",
    "holds": "a router that holds",
    "predicts": "predictions",
    "cancels": "requests that clients cancel",
    "retries": "clients that send again",
    "tiered": "a prefix cache with a `Host` below it",
    "stored": "a `Store` below that",
    "offers": "a `Handover` that offers on arrival",
}


def page() -> str:
    """Return the page."""
    when = {one.name: one.when for one in ENGINE if one.name != "arrival"}  # else the trace has it
    rows = [
        f"| `{name}` | {dtype.base_type()} | {DEFINITIONS[name]} | {_WITH[when.get(name, 'always')]} |\n"
        for name, dtype in SCHEMA.items()
    ]
    return "".join([_INTRODUCTION, *rows])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(page(), end="")
