"""The exceptions of Paceline.

Every message names the field or the file and row, the rule, the value it was,
and what would be right.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = [
    "ClockError",
    "ClusterLostError",
    "ConfigError",
    "FitError",
    "ForkError",
    "InternalError",
    "InvariantViolation",
    "NoProgressError",
    "PacelineError",
    "PacelineWarning",
    "PolicyError",
    "PolicyWarning",
    "RankError",
    "ResultError",
    "RouterStateWarning",
    "SessionWarning",
    "TraceError",
    "TraceWarning",
]


class PacelineError(Exception):
    """The base of every error that Paceline raises on purpose."""


class PacelineWarning(UserWarning):
    """The base of the warnings about inputs that may not mean what they say."""


class PolicyWarning(PacelineWarning):
    """A policy reads, names or picks something without the effect that it seems to have."""


class TraceWarning(PacelineWarning):
    """A trace is read as it stands, and may be meant otherwise."""


class SessionWarning(PacelineWarning):
    """Turns of a session arrive before the answer before them has ended."""


class RouterStateWarning(PacelineWarning):
    """A Python function that routes keeps state from one replay to the next."""


class TraceError(PacelineError, ValueError):
    """A trace could not be read, or does not keep the schema's rules."""


class ConfigError(PacelineError, ValueError):
    """A model, GPU, instance, cluster or setting is not usable as given."""


class FitError(ConfigError):
    """A model and its KV do not fit the memory of an instance's GPUs."""


class ClockError(PacelineError, OverflowError):
    """The simulated time ran past what the clock holds (186 days)."""


class ClusterLostError(PacelineError, ConnectionError):
    """The Ray cluster of a sweep ended while the sweep ran. What was finished is kept."""


class NoProgressError(PacelineError, RuntimeError):
    """Under the policy, requests are left that never generate another token.

    The message names the instance, the simulated time and the rule: requests
    that preempt each other in a circle, or requests that no stage of the
    scheduler can run.
    """


class PolicyError(PacelineError, ValueError):
    """A policy is not well formed, or names something that does not exist."""


class RankError(PacelineError, ValueError):
    """Prompts, lengths, scores or a saved ranker are not usable as given."""


class ResultError(PacelineError, ValueError):
    """A saved result could not be read back or written."""


class InvariantViolation(PacelineError, AssertionError):
    """An invariant of the engine did not hold: a bug in Paceline, not in the input."""


class ForkError(PacelineError, RuntimeError):
    """A process was forked after Paceline had been used, and uses it too."""


_REPORT_AT: Final = "https://github.com/paceline/paceline/issues"


class InternalError(PacelineError, RuntimeError):
    """A bug in Paceline: its native engine reached a state that cannot be.

    Parameters
    ----------
    problem
        What was found, and the line of the engine's source that found it.

    Attributes
    ----------
    problem : str
        As given.
    configuration : dict
        The input of the engine, as texts by the name of a file: the policy and
        the cluster in TOML (or as they are printed, where TOML cannot hold
        them), and `engine.json`, as the engine read it. The trace is named in it
        and not contained.
    saved : Path or None
        Where `save` wrote the configuration.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.configuration: dict[str, str] = {}
        self.saved: Path | None = None

    def __str__(self) -> str:
        from paceline._core import VERSION

        attached = "this message"
        if self.saved is not None:
            attached += f" and the configuration, which is saved in {self.saved}"
        elif self.configuration:
            attached += " and the configuration, which save(directory) of this exception writes"
        return (
            f"a bug in Paceline {VERSION}, not in what it was given: {self.problem}. "
            f"Please report it at {_REPORT_AT} with {attached}"
        )

    def save(self, directory: str | Path) -> Path:
        """Write the configuration, and this message, into a new directory.

        Parameters
        ----------
        directory
            What to call it; where that exists, a number is added to the name.

        Returns
        -------
        Path
            The directory.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        wanted = Path(directory)
        target, number = wanted, 1
        while target.exists():
            number += 1
            target = wanted.with_name(f"{wanted.name}-{number}")
        target.mkdir(parents=True)
        for name, text in {**self.configuration, "problem.txt": f"{self.problem}\n"}.items():
            (target / name).write_text(text, encoding="utf-8")
        self.saved = target
        return target
