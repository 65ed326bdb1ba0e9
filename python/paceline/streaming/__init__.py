"""Replays of traces that are read in chunks, whose results are written as requests end."""

from paceline.streaming.replaying import replay_scan

__all__ = ["replay_scan"]
