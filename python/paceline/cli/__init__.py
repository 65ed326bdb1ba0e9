"""The command line: `paceline`, or `python -m paceline`.

Answers go to standard output and everything else to standard error. The exit
status is 0 for success, 2 for a mistake in the arguments, the trace or the
configuration, 130 after Ctrl-C, and 1 for a bug of Paceline's own.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Parameters
    ----------
    arguments
        The words after `paceline`; those of this process if None.
    """
    try:
        from paceline.cli.app import run

        return run(arguments)
    except KeyboardInterrupt:
        from paceline.cli.interrupt import stop

        return stop()
