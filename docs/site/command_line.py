"""Pages of the commands, from the same declarations as their `--help`."""

from __future__ import annotations

import re

from cyclopts.docs.markdown import generate_markdown_docs

from paceline.cli.app import app
from paceline.cli.examples import EXAMPLES

SECTION = re.compile(r"^## paceline (\S+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#(#+ )", re.MULTILINE)
ANCHOR = re.compile(r"\(#paceline-([a-z-]+)\)")


def pages() -> dict[str, str]:
    """Return the pages by name: one of all commands, and one for each."""
    text = generate_markdown_docs(app, generate_toc=False)
    overview = text.partition("\n## ")[0].replace("# paceline\n", "# Commands\n", 1)
    made = {"index": ANCHOR.sub(r"(\1.md)", overview)}
    for found in SECTION.finditer(text):
        command, described = found.groups()
        examples = "\n".join(f"paceline {words}" for words in EXAMPLES.get(command, ()))
        made[command] = f"# paceline {command}\n" + HEADING.sub(r"\1", described)
        if examples:
            made[command] += f"\n**Examples**:\n\n```console\n{examples}\n```\n"
    return made
