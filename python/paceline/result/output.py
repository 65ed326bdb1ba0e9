"""Where the result of a replay is saved."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from paceline._arguments import typed, typed_fields
from paceline.errors import ConfigError

__all__ = ["Output", "output_of"]


@dataclass(frozen=True, slots=True)
@typed_fields()
class Output:
    """The directory of a result, and how often a long replay is kept on the way.

    A replay of a scanned trace with checkpoints that is killed or interrupted, or whose disk is full, leaves
    what it has beside the directory. The same call continues there, and gives the same files. It is refused
    if the trace, the cluster, the policy, a setting or the build of Paceline is another: then delete the
    checkpoint, which the message names. ``paceline clean --checkpoints`` does so, too.

    Parameters
    ----------
    directory
        Where the result is saved.
    checkpoint
        Requests of the trace after which the state is kept, rounded up to chunks of the scan. A checkpoint
        takes the time and the space of the requests that are in flight, the prefix caches and a chunk. None:
        it is never kept.

    Examples
    --------
    >>> Output("out", checkpoint=5_000_000)
    Output(directory='out', checkpoint=5000000)
    """

    directory: str | os.PathLike[str]
    checkpoint: int | None = None

    def __post_init__(self) -> None:
        if self.checkpoint is not None and self.checkpoint < 1:
            raise ConfigError(f"checkpoint must be at least 1 request, or None, was {self.checkpoint}")

    @property
    def path(self) -> Path:
        """The directory as a path."""
        return Path(os.fspath(self.directory))


@typed()
def output_of(given: str | os.PathLike[str] | Output) -> Output:
    """Return an ``out`` as `paceline.replay` takes it, as one object."""
    return given if isinstance(given, Output) else Output(given)
