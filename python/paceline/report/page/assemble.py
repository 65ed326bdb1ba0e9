"""A report as one text of HTML.

Jinja escapes every value, and JSON in a script element has no ``<``. The page's policy names its two scripts
by their hashes, so that a browser runs no other, and forbids every request to a network.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from paceline.report.charts.theme import COLOURS, PAGE
from paceline.report.figure import Section, csv_of
from paceline.report.libraries import jinja2
from paceline.report.script import drawing_script
from paceline.report.sections.inputs import Inputs

__all__ = ["assemble"]


def assemble(
    *,
    title: str,
    lead: str,
    version: str,
    cards: Sequence[tuple[str, str, str]],
    warnings: Sequence[str],
    sections: Sequence[Section],
    inputs: Sequence[Inputs],
) -> str:
    """Return the page."""
    from markupsafe import Markup as Ours  # comes with Jinja

    drawing, script = drawing_script(), _text("script.js")
    specs = {
        f"spec-{section.name}-{place}-{at}": _spec(chart, f"{figure.title}. {name or figure.note}")
        for section in sections
        for place, figure in enumerate(section.figures, 1)
        for at, (name, chart) in enumerate(figure.charts, 1)
    }
    page: str = _template().render(
        title=title,
        lead=lead,
        version=version,
        cards=cards,
        warnings=warnings,
        sections=sections,
        inputs=inputs,
        specs=specs,
        config=PAGE,
        # Texts of ours, the only ones that are not escaped.
        style=Ours(_text("style.css")),
        drawing=Ours(drawing),
        script=Ours(script),
        policy=_policy(drawing, script),
        csv=csv_of,
    )
    return page


def _policy(*scripts: str) -> str:
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _spec(chart: Any, description: str) -> dict[str, Any]:  # noqa: ANN401 - Altair's
    spec: dict[str, Any] = chart.to_dict(validate=False)
    for name in ("$schema", "config"):
        spec.pop(name, None)
    spec["description"] = description
    _themed(spec)
    safe: dict[str, Any] = _one_line(spec)
    return safe


# Vega writes names into expressions as string literals, in which its parser takes no line separator.
_SEPARATORS = str.maketrans({"\u2028": "↵", "\u2029": "↵"})


def _one_line(node: Any) -> Any:  # noqa: ANN401 - a part of a specification
    """Return a part of a specification with a sign in place of each line separator of Unicode."""
    if isinstance(node, str):
        return node.translate(_SEPARATORS)
    if isinstance(node, dict):
        return {_one_line(name): _one_line(value) for name, value in node.items()}
    return [_one_line(each) for each in node] if isinstance(node, list) else node


_VARIABLES = {colour: f"var(--c{place})" for place, colour in enumerate(COLOURS, 1)}


def _themed(node: Any) -> None:  # noqa: ANN401 - a part of a specification
    """Replace the colours of scales by the page's variables; data is left alone."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name == "range" and isinstance(value, list):
                node[name] = [_VARIABLES.get(each, each) if isinstance(each, str) else each for each in value]
            elif name not in ("data", "datasets"):
                _themed(value)
    elif isinstance(node, list):
        for each in node:
            _themed(each)


@cache
def _template() -> Any:  # noqa: ANN401 - a Jinja template
    library = jinja2()
    environment = library.Environment(autoescape=True, undefined=library.StrictUndefined)
    return environment.from_string(_text("template.html.j2"))


def _text(name: str) -> str:
    return files("paceline.report.page").joinpath(name).read_text(encoding="utf-8")
