"""`paceline study`: do a published evaluation again, and put the paper's numbers beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

__all__ = ["study"]


def study(
    name: str | None = None,
    /,
    *,
    out: Path | None = None,
    force: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    quick: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    data: Path | None = None,
    workers: int | None = None,
    json: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    quiet: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> None:
    """Run a study and print the paper's numbers beside ours.

    Parameters
    ----------
    name
        Which study; without one, they are listed.
    out
        A folder for all of it: index.md, tables as CSV and Markdown, figures as PNG and CSV, study.json.
        Figures need matplotlib: pip install 'paceline[study]'.
    force
        Replace an earlier study in that folder.
    quick
        Few requests, to see that it runs: the numbers are rough.
    data
        A folder with real data that the study can use in place of distributions fitted to it.
    workers
        Replays at a time; by default one on each core. The numbers do not depend on it.
    json
        Print one JSON document instead of tables.
    quiet
        No progress bar.
    """
    from paceline.cli.output import console, note, print_json, table
    from paceline.cli.progress import TaskBar
    from paceline.errors import ConfigError
    from paceline.study import as_document, run_study, studies, write_study
    from paceline.study.registry import check_study
    from paceline.study.work import Work
    from paceline.study.writing import check_target, need_matplotlib

    if name is None:
        known = studies()
        if json:
            print_json(known)
        else:
            console().print(table(("study", "about"), list(known.items()), left=2))
        return
    check_study(name)
    if out is not None:
        # Before the work, which takes minutes.
        earlier = check_target(out)
        if not force and earlier.exists() and any(earlier.iterdir()):
            raise ConfigError(f"{out}: holds an earlier study; --force replaces it")
        need_matplotlib()
    with TaskBar(quiet=quiet) as progress:
        done = run_study(name, Work(quick=quick, data=data, workers=workers, report=progress.show))
    written = None if out is None else write_study(done, out)
    if json:
        print_json(as_document(done))
    else:
        _print(done)
    if written is not None:
        note(f"wrote {written}")


def _print(done: Any) -> None:  # noqa: ANN401 - a Study: its import would make help slow
    from rich.text import Text

    from paceline.cli.output import console, table
    from paceline.study.model import Facts, Figure, Table

    screen = console()
    screen.print(Text(done.title, style="bold"))
    if done.quick:
        screen.print("A quick run, on few requests: its numbers are rough.")
    for page in done.pages:
        screen.print()
        screen.print(Text(page.title, style="bold"))
        for part in page.parts:
            screen.print()
            if isinstance(part, str):
                screen.print(Text(part.strip()))
            elif isinstance(part, Figure):
                screen.print(Text(f"[{part.name}] {part.caption}", style="dim"))
            else:
                shown: Table = part.table() if isinstance(part, Facts) else part
                left = next(
                    (i for i, kind in enumerate(shown.frame.dtypes) if kind.is_numeric()), shown.frame.width
                )
                screen.print(Text(shown.caption))
                screen.print(table(shown.frame.columns, shown.cells(), left=left))
