"""The pages of a study: its text in ``pages.md``, with what was computed put in its places.

``pages.md`` in a study's package has a section for each page, ``## Title {#name}``. In it are text, in which
``{word}`` stands for a computed word, and places for tables, facts and figures, ``<!-- name: caption -->``.
The study computes a mapping for each page, of words and parts by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Final, TypeAlias

from paceline.errors import ConfigError
from paceline.study.model import Fact, Facts, Figure, Page, Part, Table

__all__ = ["Content", "pages"]

#: What a study computes for a name: a word, a part, or ``None`` for a part that this run does not have.
Content: TypeAlias = str | Table | Figure | Sequence[Fact] | None

_PAGE: Final = re.compile(r"^## (?P<title>.+) \{#(?P<name>[a-z0-9-]+)\}\n", re.MULTILINE)
_PLACE: Final = re.compile(r"^<!-- (?P<name>[a-z0-9-]+): (?P<caption>.+?) -->\n", re.MULTILINE | re.DOTALL)


def pages(package: str, contents: Mapping[str, Mapping[str, Content]]) -> tuple[Page, ...]:
    """Return the pages of ``pages.md`` that have contents, in its order.

    Parameters
    ----------
    package
        The study's.
    contents
        Words and parts of each page, by name.

    Raises
    ------
    ConfigError
        If the file has no place for a part, or a place or a word without content.
    """
    text = files(package).joinpath("pages.md").read_text(encoding="utf-8")
    heads = list(_PAGE.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    bodies = {
        head["name"]: (head["title"], text[head.end() : end]) for head, end in zip(heads, ends, strict=True)
    }
    for name in contents:
        if name not in bodies:
            raise ConfigError(f"pages.md must have a section {{#{name}}}, had {', '.join(bodies)}")
    return tuple(
        Page(name, title, tuple(_parts(name, body, contents[name])))
        for name, (title, body) in bodies.items()
        if name in contents
    )


def _parts(page: str, body: str, contents: Mapping[str, Content]) -> Iterator[Part]:
    words = _Words(page)
    words |= {name: content for name, content in contents.items() if isinstance(content, str)}
    parts = {name: content for name, content in contents.items() if not isinstance(content, str)}
    places = list(_PLACE.finditer(body))
    if sorted(parts) != sorted(place["name"] for place in places):
        named = ", ".join(place["name"] for place in places)
        raise ConfigError(f"page {page} of pages.md must place {', '.join(parts)}, placed {named}")
    at = 0
    for place in places:
        yield from _text(body[at : place.start()], words)
        part = parts[place["name"]]
        caption = " ".join(place["caption"].split()).format_map(words)
        if isinstance(part, Table | Figure):
            yield replace(part, name=place["name"], caption=caption)
        elif part is not None:
            yield Facts(tuple(part), name=place["name"], caption=caption)
        at = place.end()
    yield from _text(body[at:], words)


class _Words(dict[str, str]):
    """The words of a page."""

    def __init__(self, page: str) -> None:
        self._page = page

    def __missing__(self, word: str) -> str:
        raise ConfigError(
            f"page {self._page} of pages.md needs the word {word!r}, which the study did not compute"
        )


def _text(text: str, words: Mapping[str, str]) -> Iterator[str]:
    """Yield a text with a line for each paragraph and item of a list, unless it is empty."""
    blocks = [re.sub(r"\n(?!- )", " ", block) for block in text.strip().split("\n\n")]
    filled = "\n\n".join(blocks).format_map(words)
    if filled:
        yield filled
