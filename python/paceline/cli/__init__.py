"""The command line: `paceline`, or `python -m paceline`.

Answers go to standard output and everything else to standard error. The exit
status is 0 for success, 2 for a mistake in the arguments, the trace or the
configuration, or where the answer cannot be written, 128 and the signal's
number after Ctrl-C (130), SIGTERM (143) or SIGHUP (129), and 1 for a bug of
Paceline's own.
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
    from paceline.cli.interrupt import listening, stop

    try:
        with listening():
            from paceline.cli.app import run

            return run(arguments)
    except KeyboardInterrupt as interrupt:
        return stop(interrupt)
    except RuntimeError as error:
        # Python raises that a lock is not held if the interrupt comes between the steps of a wait.
        if isinstance(error.__context__, KeyboardInterrupt):
            return stop(error.__context__)
        raise
