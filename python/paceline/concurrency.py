"""Clients that wait for answers: how many requests, or sessions, are in flight, and how long they wait."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from paceline import _check
from paceline._arguments import typed_fields
from paceline._clock import moment
from paceline.errors import ConfigError
from paceline.patience import Patience

__all__ = ["Concurrency"]


@dataclass(frozen=True, slots=True, repr=False)
@typed_fields()
class Concurrency:
    """A limit of what is in flight at once: the next request is sent when another has ended.

    Requests become ready when the trace says: at their arrival, or their ``think_time`` after the answer
    before them. A ready request is sent at once while fewer than ``most`` are in flight; else as one ends, in
    the order in which requests became ready. Latencies begin when it is sent, as clients measure them.

    Parameters
    ----------
    most
        The most requests, or sessions, in flight. None: any number.
    gap_s
        Seconds from the end of one to the start of the next in its place: what the client needs.
    of
        ``"requests"``: each counts by itself. ``"sessions"``: a session counts from its first request to the
        end of its last; its later turns need a ``think_time``. A request without a session is one of its own.
    patience
        For how long clients wait, and how often they send a request again. None: they wait for ever.

    Raises
    ------
    ConfigError
        If ``most`` is not a positive whole number, or the gap is negative; or if neither a limit nor a
        patience is given.

    Examples
    --------
    Four requests at once, each of which takes 10 ms, by clients of which two wait at a time:

    >>> from paceline import Affine, Cluster, Instance, Trace, replay
    >>> trace = Trace.from_columns(arrival=[0] * 4, prompt_tokens=[8] * 4, output_tokens=[1] * 4)
    >>> cluster = Cluster([Instance(cost=Affine(step_s=0.01), num_blocks=101)])
    >>> replay(trace, cluster, clients=Concurrency(2, gap_s=0.001)).requests["arrival"].to_list()
    [0.0, 0.0, 0.011, 0.011]

    Notes
    -----
    Source: ``vllm bench serve --max-concurrency`` (``vllm/benchmarks/serve.py``): a semaphore around each
    request, whose time begins within it. AgentX replays sessions at a fixed number in
    flight likewise.
    """

    most: int | None = None
    gap_s: float = 0.0
    of: Literal["requests", "sessions"] = "requests"
    patience: Patience | None = field(default=None, metadata={"table": Patience})

    def __post_init__(self) -> None:
        moment("gap_s of a Concurrency", self.gap_s)
        if self.most is not None:
            _check.count("most of a Concurrency", self.most)
        elif self.patience is None:
            raise ConfigError("a Concurrency must have a limit, most=64, or a patience, had neither")
        elif self.gap_s or self.of != "requests":
            raise ConfigError("gap_s and of must be left out of a Concurrency without a limit, most=64")

    def __repr__(self) -> str:
        """Return the limit as it is written in Python, the patience if there is one."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.patience is None:
            del given["patience"]
        return f"Concurrency({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def to_wire(self) -> dict[str, Any]:
        """Return the limit as the engine takes it."""
        gap = moment("gap_s of a Concurrency", self.gap_s)
        wire = {"most": self.most, "gap": gap, "by_session": self.of == "sessions"}
        return wire if self.patience is None else {**wire, "patience": self.patience.to_wire()}
