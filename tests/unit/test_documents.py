"""Examples in the documents run and print what is shown, and links lead to existing files."""

from __future__ import annotations

import re
import runpy
import shutil
from pathlib import Path

import pytest

from paceline import policies

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    str(file.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "traces/**/*.md", "benches/**/*.md")
    for file in ROOT.glob(pattern)
)
PYTHON = re.compile(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
"""A block of Python, and the block of text right after it, if any: what it prints."""
CLAIM = re.compile(r"^print\(.*\)  # (\w+\(.*\))$", re.MULTILINE)
"""A value that a comment says is printed."""
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


def test_the_readme_opens_with_an_example_of_a_dozen_lines() -> None:
    first = PYTHON.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert first
    assert len([line for line in first[1].splitlines() if line]) <= 12


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if PYTHON.search((ROOT / name).read_text())])
def test_the_python_in_a_document_runs(
    document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "traces", tmp_path / "traces")  # one document writes there
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    text = (ROOT / document).read_text(encoding="utf-8")
    for block in PYTHON.finditer(text):
        above = "\n" * text.count("\n", 0, block.start(1))  # so that a traceback names the right line
        exec(compile(above + block[1], document, "exec"), names)
        printed = capsys.readouterr().out
        assert block[2] is None or printed == block[2]
        assert [claim for claim in CLAIM.findall(block[1]) if claim not in printed.splitlines()] == []


def test_without_a_clone_the_traces_of_the_guides_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for block in PYTHON.finditer((ROOT / "traces/README.md").read_text(encoding="utf-8")):
        exec(compile(block[1], "traces/README.md", "exec"), {})
    drawn = {path.name for path in (tmp_path / "traces").iterdir()}
    guides = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("docs/guides/*.md"))
    assert drawn == set(re.findall(r"\btraces/([a-z0-9-]+\.(?:csv|jsonl))\b", guides))
    for name in drawn:
        assert (tmp_path / "traces" / name).read_bytes() == (ROOT / "traces" / name).read_bytes()


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if PYTHON.search((ROOT / name).read_text())])
def test_the_python_in_a_document_needs_no_package_of_ours_for_tests(document: str) -> None:
    # A reader has what an installed Paceline brings, and the extras that the document names.
    blocks = "".join(block[1] for block in PYTHON.finditer((ROOT / document).read_text(encoding="utf-8")))
    assert re.findall(r"^\s*(?:import|from) (pytest|hypothesis)\b", blocks, re.MULTILINE) == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_links_in_a_document_lead_somewhere(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    assert [link for link in LINK.findall(text) if not (ROOT / document).parent.joinpath(link).exists()] == []


def test_a_row_of_the_readmes_table_has_a_cell_for_each_column() -> None:
    script = runpy.run_path(str(ROOT / "docs/readme_table.py"))
    table = script["rows"](ROOT / "tests/data/traces/azure2023_conv.csv.zst")
    rows = [line.strip("|").split("|") for line in table.splitlines()]
    shown = script["ROWS"].search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert [row[0] for row in rows] == [line.split("|")[1] for line in shown[0].splitlines()]
    assert {len(row) for row in rows} == {len(shown[0].splitlines()[0].strip("|").split("|"))}
    # Quantiles of a metric do not fall: p50, p90 and p99 of TTFT.
    units = {"ms": 1e-3, "s": 1.0}
    times = [
        [float(number.replace(",", "")) * units[unit] for number, unit in map(str.split, row[1:4])]
        for row in rows
    ]
    assert times == [sorted(row) for row in times]


def test_the_table_in_the_readme_has_the_engines_current_figures(shared: Path) -> None:
    script = runpy.run_path(str(ROOT / "docs/readme_table.py"))
    shown = script["ROWS"].search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert shown
    assert shown[0] == script["rows"](shared / "traces/azure2023_conv.csv.zst"), "run docs/readme_table.py"


def test_the_guide_to_schedulers_names_every_policy_at_a_glance() -> None:
    shipped = [name for name in policies.__all__ if name.islower()]
    guide = (ROOT / "docs/guides/schedulers.md").read_text(encoding="utf-8")
    glance = guide.partition("## Schedulers as lists of stages")[0]
    assert [name for name in shipped if f"`{name}`" not in glance] == []
    assert f"**{len(shipped)} policies**" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_of_logs_counts_all_of_them() -> None:
    page = (ROOT / "docs/validation.md").read_text(encoding="utf-8")
    rows = page.partition("| engine | logs |")[2].partition("\n\n")[0]
    counts = [int(number) for number in re.findall(r"^\|[^|]+\| (\d+) \|", rows, re.MULTILINE)]
    assert sum(counts) == len(list((ROOT / "tests/conformance/logs").rglob("*.gz")))
