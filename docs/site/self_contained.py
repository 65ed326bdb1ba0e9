"""The check that the site's pages load nothing from elsewhere, and that links between them lead somewhere."""

from __future__ import annotations

import posixpath
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority, get_plugin_logger

log = get_plugin_logger("self_contained")
LOADS = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src", "video": "src"}
NOT_LOADED = {"canonical", "next", "prev", "alternate"}


class Addresses(HTMLParser):
    """What a page loads, and what it links to."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element's address."""
        values = dict(attrs)
        if tag == "a" and (address := values.get("href")):
            self.links.append(address)
        elif not NOT_LOADED & set((values.get("rel") or "").split()) and (
            address := values.get(LOADS.get(tag, ""))
        ):
            self.loads.append(address)


@event_priority(-100)  # after plugins that write files
def on_post_build(config: MkDocsConfig) -> None:
    """Warn of what a page would fetch, and of links to files that were not built."""
    site = Path(config.site_dir)
    for file in sorted(site.rglob("*.html")):
        page = file.relative_to(site).as_posix()
        if page == "404.html":  # its addresses start from the site's own
            continue
        found = Addresses()
        found.feed(file.read_text(encoding="utf-8"))
        for address in found.loads:
            if urlsplit(address).netloc:
                log.warning(f"{page} loads {address}")
        for address in found.loads + found.links:
            parts = urlsplit(address)
            target = posixpath.join(posixpath.dirname(page), unquote(parts.path))
            if not (parts.scheme or parts.netloc) and parts.path and not (site / target).exists():
                log.warning(f"{page} leads to {target}, which is not there")
