"""All about one policy: its documentation in parts, its parameters, and the fields that it reads."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from paceline.policy import Policy

__all__ = ["described", "print_page", "section"]

_REQUIRED: Final = {"layers": 32, "step_s": (1e-2, 1e-5, 1e-7)}
"""Values for parameters that must be given, to find out what the policy reads; others are 2."""


def section(documentation: str, title: str) -> str:
    """Return the text of a section of a docstring in numpy's style; empty if there is none."""
    pattern = rf"^{title}\n-+\n(.*?)(?=^\w[^\n]*\n-+$|\Z)"
    found = re.search(pattern, documentation + "\n", re.MULTILINE | re.DOTALL)
    return found[1].strip("\n") if found else ""


def described(make: Callable[..., Policy]) -> dict[str, Any]:
    """Return what a policy does, its notes with the source, and what it reads, each as text or names."""
    documentation = inspect.getdoc(make) or ""
    text = re.split(r"^\w[^\n]*\n-+$", documentation, maxsplit=1, flags=re.MULTILINE)[0].strip()
    return {
        "description": _paragraphs(text)[1:],
        "notes": _paragraphs(section(documentation, "Notes")),
        "reads": _reads(make),
    }


def _paragraphs(text: str) -> list[str]:
    return [" ".join(part.replace("`", "").split()) for part in text.split("\n\n") if part.strip()]


def _reads(make: Callable[..., Policy]) -> dict[str, Any]:
    """Return the fields in the expressions of the policy with its defaults, and columns of the trace."""
    from paceline.policy.expressions.fields import meaning_of

    required = {
        parameter.name: _REQUIRED.get(parameter.name, 2)
        for parameter in inspect.signature(make).parameters.values()
        if parameter.default is parameter.empty
    }
    policy = make(**required)
    places = sorted({(field.space, field.name) for field in policy.fields()})
    return {
        "fields": {f"{space}.{name}": meaning_of(space, name).text for space, name in places},
        "columns": sorted(policy.columns),
        "hashes": sorted(policy.affinities),
        "prefixes": policy.reads_prefixes,
        "oracle": policy.uses_oracle,
    }


def print_page(name: str, page: dict[str, Any], rows: list[tuple[str, str, str]]) -> None:
    """Print a policy: what it does, its parameters, what it reads, and its source."""
    from rich.text import Text

    from paceline.cli.output import console, table

    screen = console()
    width = min(100, screen.width)

    def write(words: str) -> None:
        screen.print(Text(words), width=width)

    screen.print(Text.assemble((name, "bold"), f"  {page['summary']}"), width=width)
    for paragraph in page["description"]:
        screen.print()
        write(paragraph)
    screen.print()
    screen.print(table(("parameter", "default", ""), rows, left=3, vertical="top"), width=width)
    screen.print()
    reads = page["reads"]
    screen.print(Text("reads", style="bold"))
    if reads["fields"]:
        screen.print(table(("", ""), list(reads["fields"].items()), left=2, vertical="top"), width=width)
    for words in _facts(reads):
        write(words)
    for paragraph in page["notes"]:
        screen.print()
        write(paragraph)


def _facts(reads: dict[str, Any]) -> list[str]:
    facts = []
    if not reads["fields"]:
        facts.append("No expression of the policy reads a field: its rules and its order are built in.")
    if reads["columns"]:
        facts.append(f"Columns of the trace: {', '.join(reads['columns'])}.")
    if reads["hashes"]:
        facts.append(f"Hashes: {', '.join(reads['hashes'])}.")
    if reads["prefixes"]:
        facts.append("It depends on what prompts share.")
    if reads["oracle"]:
        facts.append("It uses an oracle: what no real scheduler knows, such as output lengths.")
    return facts
