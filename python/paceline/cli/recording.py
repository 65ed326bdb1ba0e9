"""The window of a replay that is recorded step by step."""

from __future__ import annotations

from pathlib import Path

__all__ = ["perfetto_library", "recorded_window"]

_MINUTE_S = 60.0


def recorded_window(text: str | None, perfetto: Path | None) -> tuple[float, float] | None:
    """Return the window that ``--record FROM,TO`` names; for ``--perfetto`` alone the first minute.

    Raises
    ------
    ConfigError
        If the text is not two moments in order.

    Examples
    --------
    >>> recorded_window("10,20.5", None)
    (10.0, 20.5)
    """
    from paceline.errors import ConfigError

    if text is None:
        return None if perfetto is None else (0.0, _MINUTE_S)
    try:
        start, end = (float(word) for word in text.split(","))
    except ValueError:
        start = end = 0.0
    if not 0 <= start < end:
        raise ConfigError(f"--record must be FROM,TO in seconds, FROM before TO, as 10,20; was {text!r}")
    return start, end


def perfetto_library() -> None:
    """Check that traces for Perfetto can be written, before a replay that may take long.

    Raises
    ------
    ConfigError
        If the extra is not installed.
    """
    from importlib.util import find_spec

    from paceline.errors import ConfigError

    if find_spec("perfetto") is None:
        raise ConfigError(
            "--perfetto needs the package perfetto, which is not installed: pip install 'paceline[perfetto]'"
        )
