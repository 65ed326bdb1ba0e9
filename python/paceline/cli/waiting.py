"""Options of clients that wait for answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from cyclopts import Parameter

from paceline.cli.options import LOAD, seconds_of

if TYPE_CHECKING:
    from paceline.concurrency import Concurrency
    from paceline.patience import Patience
    from paceline.trace import Trace

__all__ = ["NO_CLIENTS", "ClientOptions"]


@Parameter(name="*", group=LOAD)
@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """How many requests, or sessions, are in flight at most, and how long clients wait.

    Parameters
    ----------
    concurrency
        The most requests in flight: the next one is sent when another has ended.
    concurrent_sessions
        The most sessions in flight, of a trace with think times.
    client_gap
        Time from the end of one to the start of the next in its place: 4ms; seconds without a unit.
    timeout
        Time from when a request is sent until its client cancels it: 30s.
    retries
        How often a request is sent again that timed out, was rejected by the policy, or gave up.
    backoff
        Time before it is sent again for the first time: 500ms. Each later wait is twice the one before, up to
        8 s, less a random share of a quarter.
    """

    concurrency: int | None = None
    concurrent_sessions: int | None = None
    client_gap: str | None = None
    timeout: str | None = None
    retries: int = 0
    backoff: str | None = None

    def clients(self) -> Concurrency | None:
        """Return the limit of what is in flight; None if there is none.

        Raises
        ------
        ConfigError
            If two limits are given, a gap without a limit, or a time before retries without any.
        """
        from paceline.concurrency import Concurrency
        from paceline.errors import ConfigError

        requests, sessions = self.concurrency, self.concurrent_sessions
        if requests is not None and sessions is not None:
            raise ConfigError("--concurrency and --concurrent-sessions limit the same clients: give one")
        most = sessions if requests is None else requests
        patience = self._patience()
        if most is None:
            if self.client_gap is not None:
                raise ConfigError("--client-gap needs --concurrency or --concurrent-sessions; none was given")
            return None if patience is None else Concurrency(patience=patience)
        gap = 0.0 if self.client_gap is None else seconds_of(self.client_gap, "--client-gap")
        of: Literal["requests", "sessions"] = "sessions" if requests is None else "requests"
        return Concurrency(most, gap_s=gap, of=of, patience=patience)

    def _patience(self) -> Patience | None:
        from paceline.errors import ConfigError
        from paceline.patience import Patience

        if self.backoff is not None and not self.retries:
            raise ConfigError("--backoff needs --retries; none was given")
        if self.timeout is None and not self.retries:
            return None
        timeout = None if self.timeout is None else seconds_of(self.timeout, "--timeout")
        patience = Patience(timeout_s=timeout, retries=self.retries)
        if self.backoff is None:
            return patience
        return replace(patience, backoff_s=seconds_of(self.backoff, "--backoff"))

    def of(self, trace: Trace) -> Trace:
        """Return a trace with these clients; as it is if no limit was given."""
        clients = self.clients()
        return trace if clients is None else trace.by(clients)


NO_CLIENTS = ClientOptions()
