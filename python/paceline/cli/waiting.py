"""Options of clients that wait for answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cyclopts import Parameter

from paceline.cli.options import LOAD, seconds_of

if TYPE_CHECKING:
    from paceline.concurrency import Concurrency
    from paceline.trace import Trace

__all__ = ["NO_CLIENTS", "ClientOptions"]


@Parameter(name="*", group=LOAD)
@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """How many requests, or sessions, are in flight at most.

    Parameters
    ----------
    concurrency
        The most requests in flight: the next one is sent when another has ended.
    concurrent_sessions
        The most sessions in flight, of a trace with think times.
    client_gap
        Time from the end of one to the start of the next in its place: 4ms; seconds without a unit.
    """

    concurrency: int | None = None
    concurrent_sessions: int | None = None
    client_gap: str | None = None

    def clients(self) -> Concurrency | None:
        """Return the limit of what is in flight; None if there is none.

        Raises
        ------
        ConfigError
            If two limits are given, or a gap without a limit.
        """
        from paceline.concurrency import Concurrency
        from paceline.errors import ConfigError

        requests, sessions = self.concurrency, self.concurrent_sessions
        if requests is not None and sessions is not None:
            raise ConfigError("--concurrency and --concurrent-sessions limit the same clients: give one")
        most = sessions if requests is None else requests
        if most is None:
            if self.client_gap is not None:
                raise ConfigError("--client-gap needs --concurrency or --concurrent-sessions; none was given")
            return None
        gap = 0.0 if self.client_gap is None else seconds_of(self.client_gap, "--client-gap")
        return Concurrency(most, gap_s=gap, of="sessions" if requests is None else "requests")

    def of(self, trace: Trace) -> Trace:
        """Return a trace with these clients; as it is if no limit was given."""
        clients = self.clients()
        return trace if clients is None else trace.by(clients)


NO_CLIENTS = ClientOptions()
