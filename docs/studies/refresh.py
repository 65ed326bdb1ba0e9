"""Write the tables and pictures of studies for their documents, or compare them with --check.

A table stands between a line ``<!-- NAME -->`` and the next empty line; a picture is a file that the document
links to, ``../pictures/STUDY/FIGURE.svg``. Without names, all studies with a document are run. Studies that
need real traces take them from ../shared, beside the checkout, or from --data.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import time
from pathlib import Path

from paceline.study import Study, Work, run_study, studies
from paceline.study.writing import markdown, picture

HERE = Path(__file__).resolve().parent
PICTURES = HERE.parent / "pictures"
DATA = HERE.parents[2] / "shared" / "traces"

NEEDS_DATA = ("arrow", "llumnix", "pars", "pascal", "sarathi", "splitwise", "vllm-proposals")
"""Studies whose tables need real traces."""

QUICK = ("kv-reuse",)
"""The studies that .ci/run compares, which has 25 minutes on two cores; `make studies` compares all."""

PLACE = re.compile(r"^<!-- ([a-z0-9-]+) -->\n(?:\|.*\n)*", re.MULTILINE)

PICTURE = re.compile(r"\]\(\.\./pictures/([a-z-]+)/([a-z0-9-]+)\.svg\)")


def filled(text: str, study: Study) -> str:
    """Return a document with the tables that its marks name."""
    tables = study.tables()
    return PLACE.sub(lambda mark: f"<!-- {mark[1]} -->\n{markdown(tables[mark[1]])}\n", text)


def drawn(text: str, study: Study) -> dict[Path, bytes]:
    """Return the pictures that a document shows, by their files."""
    figures = study.figures()
    return {PICTURES / of / f"{name}.svg": picture(figures[name]) for of, name in PICTURE.findall(text)}


def work(name: str, data: Path) -> Work:
    """Return how a study is run for its document."""
    return Work(data=data if name in NEEDS_DATA else None)


def documented() -> list[str]:
    """Return the studies that have a document."""
    return [name for name in studies() if (HERE / f"{name}.md").is_file()]


def difference(name: str, before: str, after: str) -> list[str]:
    """Return the lines in which a document differs from a fresh run, with the table above them."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"docs/studies/{name}.md", "a fresh run", lineterm="", n=1
    )
    return list(lines)


def refreshed(name: str, data: Path, *, check: bool) -> bool:
    """Run a study; return whether its document has the tables of the run, or was given them."""
    if name in NEEDS_DATA and not data.is_dir():
        print(f"{name}: skipped, as {data} is not there", flush=True)
        return True
    document = HERE / f"{name}.md"
    before, started = document.read_text(encoding="utf-8"), time.monotonic()
    study = run_study(name, work(name, data))
    after, pictures = filled(before, study), drawn(before, study)
    others = [file for file, seen in pictures.items() if not file.is_file() or file.read_bytes() != seen]
    took = f"{time.monotonic() - started:.0f} s"
    if before == after and not others:
        print(f"{name}: as a fresh run has it ({took})", flush=True)
    elif check:
        print(f"{name}: differs from a fresh run ({took})", flush=True)
        shown = [f"another picture: {file.relative_to(HERE.parent)}" for file in others]
        print("\n".join([*difference(name, before, after), *shown]), flush=True)
        return False
    else:
        document.write_text(after, encoding="utf-8")
        for file in others:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(pictures[file])
        print(f"{name}: written ({took})", flush=True)
    return True


def main(words: list[str]) -> int:
    """Run the studies that were named, or all; return 1 if a document differs and is only compared."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(documented())}; all if none")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("--quick", action="store_true", help=f"only {' and '.join(QUICK)}")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of real traces")
    given = parser.parse_args(words)
    for name in given.names:
        if name not in documented():
            parser.error(f"NAME must be one of {', '.join(documented())}, was {name!r}")
    names = given.names or [name for name in documented() if not given.quick or name in QUICK]
    good = [refreshed(name, given.data, check=given.check) for name in names]
    if not all(good):
        print("write them anew: python docs/studies/refresh.py " + " ".join(given.names))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
