"""`paceline clean`: remove what killed runs left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

__all__ = ["clean"]


def clean(
    folder: Path = Path(),
    /,
    *,
    checkpoints: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    dry_run: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    json: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> None:
    """Remove the drafts of results, studies, traces and profiles that killed runs left.

    A draft that a running process writes is left alone, and so is a finished file.

    Parameters
    ----------
    folder
        The folder that runs wrote to; the current folder if not given. Its subfolders are not searched.
    checkpoints
        Remove the checkpoints of ended replays, too, from which the same command would continue.
    dry_run
        List the drafts, and remove nothing.
    json
        Print one JSON object instead of a line for each.
    """
    from paceline._atomic import kept, leftovers, remove_kept, remove_leftovers
    from paceline.cli.output import print_json
    from paceline.errors import ConfigError

    if not folder.is_dir():
        raise ConfigError(f"{folder} must be a folder that runs wrote to")
    found = leftovers(folder) if dry_run else remove_leftovers(folder)
    if checkpoints:
        found += kept(folder) if dry_run else remove_kept(folder)
    if json:
        print_json({"folder": str(folder), "removed": not dry_run, "drafts": [path.name for path in found]})
        return
    for path in found:
        print(f"{'would remove' if dry_run else 'removed'} {path}")
    if not found:
        print(f"no drafts of ended runs in {folder}")
