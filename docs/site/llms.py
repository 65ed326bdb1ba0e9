"""The documents as Markdown beside their pages, and llms.txt, which lists them (llmstxt.org)."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urljoin

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SENTENCE = re.compile(r"^(?![#|!<\-\s])(.+?)(?:\.\s|\n\n|\Z)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")

sections: dict[str, list[Page]] = {}


def on_nav(nav: Navigation, **_: object) -> None:
    """Keep the order of the pages, by the sections at the top."""
    sections.clear()
    for item in nav.items:
        sections[str(item.title)] = _pages(item if isinstance(item, Section) else Section("", [item]))


@event_priority(-50)
def on_post_build(config: MkDocsConfig) -> None:
    """Write the list, the documents one by one, and all of them in one file."""
    site = Path(config.site_dir)
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    whole: list[str] = []
    for title, pages in sections.items():
        lines += ["", f"## {title}", ""]
        for page in pages:
            text, address = page.markdown or "", page.file.dest_uri
            if ":::" not in text:  # the API is made from docstrings, and is no Markdown
                address = address.removesuffix(".html") + ".md"
                (site / address).write_text(text, encoding="utf-8")
                whole.append(text)
            said = SENTENCE.search(FENCE.sub("", text))
            about = ": " + LINK.sub(r"\1", " ".join(said[1].split())) if said else ""
            lines.append(f"- [{page.title}]({urljoin(str(config.site_url), address)}){about}")
    (site / "llms.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
    (site / "llms-full.txt").write_text("\n\n".join(whole), encoding="utf-8")


def _pages(section: Section) -> list[Page]:
    """Return the pages of a section and of those in it, in order."""
    found: list[Page] = []
    for item in section.children:
        if isinstance(item, Section):
            found += _pages(item)
        elif isinstance(item, Page):
            found.append(item)
    return found
