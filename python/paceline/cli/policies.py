"""`paceline policies`: list the policies that come with Paceline."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any

from cyclopts import Parameter

from paceline.cli.candidates import policy_names
from paceline.cli.policy_page import section

__all__ = ["policies"]

_ENTRY = re.compile(r"^(\w[\w, ]*)\n((?:[ ]+[^\n]*\n|\n)+)", re.MULTILINE)


def policies(
    name: Annotated[str | None, Parameter(completer=policy_names)] = None,
    /,
    *,
    json: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> None:
    """List the policies that --policy knows, with the parameters that --set knows; or say all about one.

    Parameters
    ----------
    name
        A policy: what it does, its parameters, the fields that it reads, and its source.
    json
        Print one JSON object instead of tables.
    """
    from rich.text import Text

    from paceline.cli.output import console, print_json, table
    from paceline.cli.policy_choice import known

    if name is not None:
        _one(name, json=json)
        return
    document = {name: _describe(make) for name, make in known().items()}
    if json:
        print_json(document)
        return
    screen = console()
    for name, of in document.items():
        screen.print(Text.assemble((name, "bold"), f"  {of['summary']}"))
        rows = [
            (f"  {parameter}", _default(about["default"], about["required"]), _sentence(about["meaning"]))
            for parameter, about in of["parameters"].items()
        ]
        screen.print(table(("  parameter", "default", ""), rows, left=3, vertical="top"))
        screen.print()


def _one(name: str, *, json: bool) -> None:
    from paceline.cli.output import print_json
    from paceline.cli.policy_choice import made_by, word
    from paceline.cli.policy_page import described, print_page

    make = made_by(name)
    page = {**_describe(make), **described(make)}
    if json:
        print_json({word(name): page})
        return
    rows = [
        (parameter, _default(about["default"], about["required"]), about["meaning"])
        for parameter, about in page["parameters"].items()
    ]
    print_page(word(name), page, rows)


def _describe(make: Callable[..., object]) -> dict[str, Any]:
    """Return the first sentence of a policy's documentation, and its parameters with what they mean."""
    documentation = inspect.getdoc(make) or ""
    meanings = _meanings(documentation)
    return {
        "summary": documentation.partition("\n\n")[0].replace("\n", " "),
        "parameters": {
            parameter.name: {
                "required": parameter.default is parameter.empty,
                "default": _plain(parameter.default),
                "meaning": meanings.get(parameter.name, ""),
            }
            for parameter in inspect.signature(make).parameters.values()
        },
    }


def _meanings(documentation: str) -> dict[str, str]:
    """Read what each parameter means from a docstring in numpy's style."""
    entries = _ENTRY.findall(section(documentation, "Parameters") + "\n")
    return {
        name.strip(): " ".join(text.replace("`", "").split())
        for names, text in entries
        for name in names.split(",")
    }


def _sentence(text: str) -> str:
    """Return the first sentence; a point within a number or a name ends none."""
    return re.split(r"(?<=\.)\s", text, maxsplit=1)[0]


def _plain(value: object) -> str | int | float | bool | None:
    if value is inspect.Parameter.empty or value is None:
        return None
    return value if isinstance(value, str | int | float | bool) else repr(value)


def _default(value: object, required: bool) -> str:
    if required:
        return "must be given"
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
