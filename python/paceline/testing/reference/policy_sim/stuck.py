"""Replays that do not end."""

from __future__ import annotations


class Stuck(RuntimeError):
    """Requests are left, and no future event can make one run."""


class NoEnd(RuntimeError):
    """The replay took more steps than the caller allows."""
