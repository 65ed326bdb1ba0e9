"""Write the tables of a study into its document: python docs/studies/refresh.py pascal [--data FOLDER].

A table stands between a line ``<!-- NAME -->`` and the next empty line. tests/unit/study/test_documented.py
checks that the documents have the tables that the command prints now.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from paceline.study import Study, Work, run_study
from paceline.study.writing import markdown

HERE = Path(__file__).parent
DATA = HERE.parents[2] / "shared" / "traces"
NEEDS_DATA = ("arrow", "pars", "pascal")
"""Studies whose tables need real traces: by default those of ../shared, beside the checkout."""

PLACE = re.compile(r"^<!-- ([a-z0-9-]+) -->\n(?:\|.*\n)*", re.MULTILINE)


def filled(text: str, study: Study) -> str:
    """Return a document with the tables that its marks name."""
    tables = study.tables()
    return PLACE.sub(lambda mark: f"<!-- {mark[1]} -->\n{markdown(tables[mark[1]])}\n", text)


def work(name: str, data: Path) -> Work:
    """Return how a study is run for its document."""
    return Work(data=data if name in NEEDS_DATA else None)


if __name__ == "__main__":
    names = sys.argv[1:]
    data = DATA
    if "--data" in names:
        at = names.index("--data")
        data = Path(names[at + 1])
        del names[at : at + 2]
    for name in names:
        document = HERE / f"{name}.md"
        study = run_study(name, work(name, data))
        document.write_text(filled(document.read_text(encoding="utf-8"), study), encoding="utf-8")
