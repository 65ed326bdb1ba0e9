"""Write the tables of a study into its document: python docs/studies/refresh.py layered-prefill.

A table stands between a line ``<!-- NAME -->`` and the next empty line. tests/unit/study/test_documented.py
checks that the documents have the tables that the command prints now.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from paceline.study import Facts, Study, Table, run_study
from paceline.study.writing import markdown

HERE = Path(__file__).parent
PLACE = re.compile(r"^<!-- ([a-z0-9-]+) -->\n(?:\|.*\n)*", re.MULTILINE)


def filled(text: str, study: Study) -> str:
    """Return a document with the tables that its marks name."""
    tables: dict[str, Table] = {}
    for page in study.pages:
        for part in page.parts:
            if isinstance(part, Facts):
                tables[part.name] = part.table()
            elif isinstance(part, Table):
                tables[part.name] = part
    return PLACE.sub(lambda mark: f"<!-- {mark[1]} -->\n{markdown(tables[mark[1]])}\n", text)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        document = HERE / f"{name}.md"
        document.write_text(filled(document.read_text(encoding="utf-8"), run_study(name)), encoding="utf-8")
