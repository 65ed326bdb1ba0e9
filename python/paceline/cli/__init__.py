"""The command line: `paceline`, or `python -m paceline`.

Answers go to standard output and everything else to standard error. The exit
status is 0 for success, 2 for a mistake in the arguments, the trace or the
configuration, or where the answer cannot be written, 128 and the signal's
number after Ctrl-C (130), SIGTERM (143) or SIGHUP (129), and 1 for a bug of
Paceline's own.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

__all__ = ["main"]

_GARBAGE_AFTER = 200_000
"""New objects after which Python looks for cycles of garbage: as mypy's command sets it, 700 otherwise.

Imports make as many objects, of which none is garbage, and looking through them again and again took a fifth
of a short command (`benches/start_up.py`).
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Parameters
    ----------
    arguments
        The words after `paceline`; those of this process if None.
    """
    with _short_lived(whole_process=arguments is None):
        try:
            from paceline.cli.interrupt import listening

            with listening():
                from paceline.cli.app import run

                return run(arguments)
        except KeyboardInterrupt as interrupt:
            return _stop(interrupt)
        except RuntimeError as error:
            # Python raises that a lock is not held if the interrupt comes between the steps of a wait.
            if isinstance(error.__context__, KeyboardInterrupt):
                return _stop(error.__context__)
            raise


def _stop(interrupt: KeyboardInterrupt) -> int:
    from paceline.cli.interrupt import stop

    return stop(interrupt)


@contextmanager
def _short_lived(*, whole_process: bool) -> Iterator[None]:
    """Spare a process that ends with its command the searches for garbage in its modules."""
    if not whole_process:
        yield
        return
    gc.set_threshold(_GARBAGE_AFTER)
    try:
        yield
    finally:
        gc.freeze()  # the search at the interpreter's end leaves out what is frozen
