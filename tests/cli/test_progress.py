"""The progress bar is shown on a terminal only."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass

import pytest

from paceline.cli.interrupt import interruptible
from paceline.cli.progress import progress_bar


@dataclass(frozen=True)
class Snapshot:
    finished: int
    total: int = 1000
    clock_s: float = 12_345.6


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Replace standard error with a terminal; pytest would undo this if a fixture did it."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return made


def test_a_bar_shows_share_requests_and_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    with progress_bar(quiet=False, patience_s=0) as show:
        assert show is not None
        show(Snapshot(0))
        show(Snapshot(250))
    for words in ("replaying", "25%", "250 requests", "12,346 s simulated", "left"):
        assert words in screen.getvalue()


def test_a_short_replay_shows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    with progress_bar(quiet=False, patience_s=3600) as show:
        assert show is not None
        show(Snapshot(250))
    assert screen.getvalue() == ""


def test_the_cursor_is_restored_when_the_replay_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)

    def fail() -> None:
        with progress_bar(quiet=False, patience_s=0) as show:
            assert show is not None
            show(Snapshot(250))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    shown = screen.getvalue()
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


def test_without_a_terminal_or_with_quiet_there_is_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch)
    with progress_bar(quiet=True) as show:
        assert show is None
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress_bar(quiet=False) as show:
        assert show is None


def test_work_on_another_thread_returns_and_raises_as_if_called() -> None:
    assert interruptible(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0)
