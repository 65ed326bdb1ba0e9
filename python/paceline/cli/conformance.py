"""`paceline conformance`: compare the engine with decision logs of real schedulers and routers."""

from __future__ import annotations

from pathlib import Path

from paceline.cli.options import Flag

__all__ = ["conformance"]


def conformance(file: Path, /, *files: Path, follow: Flag = False) -> int:
    """Compare the engine with decision logs of real schedulers and routers.

    Each log is replayed through the engine, with leaping and without. The exit
    status is 0 if every decision is the same and 1 if one differs.

    Parameters
    ----------
    file
        A decision log, .json or .json.gz.
    files
        More of them.
    follow
        Ties that a router breaks at random go to the instance in its log, where it
        is among the equals.
    """
    from paceline.conformance.__main__ import main

    return main([*(["--follow"] if follow else []), *(str(path) for path in (file, *files))])
