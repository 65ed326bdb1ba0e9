"""`paceline presets`: list the workloads that can be drawn."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

__all__ = ["presets"]


def presets(
    name: str | None = None,
    /,
    *,
    json: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> None:
    """List the workloads that paceline synthesize draws, or say where the numbers of one come from.

    Parameters
    ----------
    name
        A preset: its source, and what it assumes beyond it.
    json
        Print one JSON object instead of a table.
    """
    from paceline.cli.output import console, print_json, table
    from paceline.synthesis import preset
    from paceline.synthesis import presets as names

    wanted = names() if name is None else (name,)
    document: dict[str, dict[str, Any]] = {each: _described(preset(each)) for each in wanted}
    if json:
        print_json(document)
        return
    if name is not None:
        console().print(f"{name} ({document[name]['draws']}): {document[name]['source']}", highlight=False)
        return
    rows = [
        (each, of["draws"], "" if of["rate"] is None else f"{of['rate']:g}", of["source"].partition(": ")[0])
        for each, of in document.items()
    ]
    console().print(table(("preset", "draws", "a second", "source"), rows, left=4, vertical="top"))


def _described(recipe: Any) -> dict[str, Any]:  # noqa: ANN401 - a Workload or Sessions
    from paceline.synthesis import Sessions

    draws = "sessions" if isinstance(recipe, Sessions) else "requests"
    return {"draws": draws, "rate": recipe.rate, "source": recipe.source}
