"""Replays that come to no end."""

from __future__ import annotations


class Stuck(RuntimeError):
    """Requests are left, and nothing can ever happen again that would have one run."""


class NoEnd(RuntimeError):
    """More steps were taken than the caller allows."""
