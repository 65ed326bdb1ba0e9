"""The script that draws charts in a report: Vega, Vega-Lite and vega-embed in one file.

vl-convert bundles it from its own copies, without a network, which takes seconds; so it is kept in the user's
cache, by the versions that made it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

from paceline._atomic import new_file
from paceline.report.libraries import altair, vl_convert

__all__ = ["drawing_script"]


@cache
def drawing_script() -> str:
    """Return the script, which defines ``vegaEmbed``."""
    spoken: str = altair().SCHEMA_VERSION.removeprefix("v").rpartition(".")[0]
    kept = _cache() / f"vega-lite-{spoken}-vl-convert-{version('vl-convert-python')}.js"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        text = kept.read_text(encoding="utf-8")
        if text.rstrip().endswith(";") and "window.vegaEmbed" in text:
            return text
    # In a function of its own, so that its names do not become the page's. "</script" would end the element.
    bundle: str = vl_convert().javascript_bundle(vl_version=spoken)
    text = "(function () {\n" + bundle.replace("</script", "<\\/script") + "\n})();\n"
    # A cache that cannot be written costs time, and nothing else.
    with contextlib.suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        with new_file(kept) as draft:
            draft.write_text(text, encoding="utf-8")
    return text


def _cache() -> Path:
    """Return the user's cache: ``$XDG_CACHE_HOME/paceline``, ``~/.cache/paceline`` or the platform's own."""
    if sys.platform == "win32":
        return (
            Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "paceline" / "cache"
        )
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "paceline"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paceline"
