"""The site's pages that are not in docs/, and the links of all of them.

Documents link to each other and to sources by their places in the tree, so that the links work on a code
host. Here a link to a document becomes one to its page, and a link to any other file one to the code host.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path

import command_line
import python_api
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]

MOVED = {
    "README.md": "index.md",
    "docs/README.md": "contents.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "COMPARE.md": "compare.md",
    "CONTRIBUTING.md": "contributing.md",
    "DESIGN.md": "design.md",
    "benches/README.md": "benches.md",
    "traces/README.md": "traces/index.md",
    "traces/schema.md": "traces/schema.md",
}
"""Documents by their paths in the tree, and their paths among the site's pages."""

IN_TREE = {page: path for path, page in MOVED.items()}

CODE = re.compile(r"^( *)(`{3,}).*?^\1\2 *$|(`+)[^`].*?(?<!`)\3(?!`)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()(?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Let readers choose between versions where mike builds one of several."""
    if "MIKE_DOCS_VERSION" in os.environ:
        config.extra["version"] = {"provider": "mike", "default": "latest"}
    return config


@event_priority(100)  # before plugins that list all pages
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents outside docs/, and the pages that are made, which fill sections of the navigation."""
    for path, page in MOVED.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
    made = {"reference/command-line/": command_line.pages(), "reference/python/": python_api.pages()}
    for folder, pages in made.items():
        for name, markdown in pages.items():
            files.append(File.generated(config, f"{folder}{name}.md", content=markdown))
    _fill(config.nav, {folder: [_entry(folder, name) for name in pages] for folder, pages in made.items()})
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Return a document with its links made the site's."""
    here = page.file.src_uri
    if here.startswith(("reference/command-line/", "reference/python/")):
        return markdown
    folder = posixpath.dirname(IN_TREE.get(here, f"docs/{here}"))

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, found[2]))
        return f"{found[1]}{_address(target, here)}{found[3] or ''}"

    pieces, end = [], 0
    for code in CODE.finditer(markdown):
        # A link's text may be code, so that only what stands between two codes is looked through.
        pieces += [LINK.sub(link, markdown[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*pieces, LINK.sub(link, markdown[end:])])


def _address(target: str, page: str) -> str:
    """Return where a page leads to for a file of the tree."""
    if target in MOVED or (target.startswith("docs/") and target.endswith((".md", ".svg", ".png"))):
        return posixpath.relpath(MOVED.get(target, target.removeprefix("docs/")), posixpath.dirname(page))
    kind = "tree" if (ROOT / target).is_dir() else "blob"
    return f"{python_api.SOURCE}/{kind}/main/{target}"


def _entry(folder: str, name: str) -> str | dict[str, str]:
    """Return a page's place in the navigation; the first is its section's own."""
    path = f"{folder}{name}.md"
    shown = f"paceline.{name}" if folder.endswith("python/") else name
    return path if name == "index" else {shown: path}


def _fill(nav: object, sections: dict[str, list[str | dict[str, str]]]) -> None:
    """Put the pages of a folder where the navigation names the folder."""
    for item in nav if isinstance(nav, list) else ():
        if isinstance(item, dict):
            for title, entry in item.items():
                if isinstance(entry, list):
                    _fill(entry, sections)
                elif entry in sections:
                    item[title] = sections[entry]
