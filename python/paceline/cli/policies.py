"""`paceline policies`: list the policies that come with Paceline."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

from cyclopts import Parameter

__all__ = ["policies"]


def policies(*, json: Annotated[bool, Parameter(negative="", show_default=False)] = False) -> None:
    """List the policies that --policy knows, with their parameters.

    Parameters
    ----------
    json
        Print one JSON object instead of a table.
    """
    from rich.text import Text

    from paceline.cli.output import console, print_json, table

    document = _describe()
    if json:
        print_json(document)
        return
    screen = console()
    for name, of in document.items():
        screen.print(Text.assemble((name, "bold"), f"  {of['summary']}"))
        screen.print(table(("", "parameter", "default"), _rows(of["parameters"]), left=3))


def _rows(parameters: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [
        ("", name, "engine's, by GPU" if value is None else str(value)) for name, value in parameters.items()
    ]


def _describe() -> dict[str, Any]:
    """Return the first sentence of each policy's documentation, and its parameters with their defaults."""
    from paceline import policies as known

    described = {}
    for name in known.__all__:
        make = getattr(known, name)
        parameters = inspect.signature(make).parameters.values()
        described[name] = {
            "summary": (inspect.getdoc(make) or "").partition("\n")[0],
            "parameters": {parameter.name: _default(parameter) for parameter in parameters},
        }
    return described


def _default(parameter: inspect.Parameter) -> Any:  # noqa: ANN401 - whatever the policy takes
    value = parameter.default
    if value is inspect.Parameter.empty:
        return "must be given"
    return value if value is None or isinstance(value, str | int | float | bool) else repr(value)
