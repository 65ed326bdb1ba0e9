"""What can go wrong, as exceptions of ours.

Every message names the field or the file and row, the rule, the value it was,
and what would be right.
"""

from __future__ import annotations

__all__ = [
    "ClockError",
    "ConfigError",
    "InvariantViolation",
    "NoProgressError",
    "PacelineError",
    "PolicyError",
    "ResultError",
    "TraceError",
]


class PacelineError(Exception):
    """The base of every error that Paceline raises on purpose."""


class TraceError(PacelineError, ValueError):
    """A trace could not be read, or does not keep the schema's rules."""


class ConfigError(PacelineError, ValueError):
    """A model, GPU, instance, cluster or setting is not usable as given."""


class ClockError(PacelineError, OverflowError):
    """The simulated time ran past what the clock holds (186 days)."""


class NoProgressError(PacelineError, RuntimeError):
    """Under the policy, requests are left that never yield another token.

    The message names the instance, the simulated time and the rule: requests
    that preempt each other in a circle, or requests that no stage of the
    scheduler can run.
    """


class PolicyError(PacelineError, ValueError):
    """A policy is not well formed, or names something that does not exist."""


class ResultError(PacelineError, ValueError):
    """A saved result could not be read back or written."""


class InvariantViolation(PacelineError, AssertionError):
    """A promise of the engine did not hold: a bug in Paceline, not in the input."""
