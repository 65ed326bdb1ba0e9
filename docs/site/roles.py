"""Roles in docstrings, such as :class:`Model`, as links to what they name."""

from __future__ import annotations

import re

import griffe

ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod|obj):`(?:([^`<]+) <)?([^`<>]+)>?`")


class Roles(griffe.Extension):
    """Replaces the roles in every docstring. What has no page of its own is shown as code."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Replace the roles in the docstring of an object, whose scope says what a name means."""
        if obj.docstring is not None:
            obj.docstring.value = ROLE.sub(lambda role: _link(obj, role), obj.docstring.value)


def _link(obj: griffe.Object, role: re.Match[str]) -> str:
    shown, target = role.groups()
    short = target.startswith("~")
    target = target.removeprefix("~")
    try:
        path = target if target.startswith("paceline.") else obj.resolve(target)
    except griffe.NameResolutionError:
        path = target
    text = shown or (target.rpartition(".")[2] if short else target)
    return f'<autoref optional identifier="{path}"><code>{text}</code></autoref>'
