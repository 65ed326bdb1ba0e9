"""Loads as benchmark clients sent them, made again from what their files say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline.concurrency import Concurrency
from paceline.synthesis.arrivals import BenchmarkClient, Regular
from paceline.trace import Trace

__all__ = ["Closed", "Load", "Saturated", "Sent", "SharedPrompts", "Spaced", "Workload", "drawing"]

_BLOCK = 16


def drawing(seed: int) -> np.random.Generator:
    """Return a generator of random numbers.

    Raises
    ------
    ConfigError
        If the seed is below 0.
    """
    _check.count("seed", seed, least=0)
    return np.random.default_rng(seed)


class Load(NamedTuple):
    """What is replayed.

    Attributes
    ----------
    trace
        The requests.
    clients
        The limit of the client; None if it had none.
    steady
        Whether only the middle of the run was measured, while as many requests ran as can.
    """

    trace: Trace
    clients: Concurrency | None = None
    steady: bool = False


@runtime_checkable
class Workload(Protocol):
    """What a client sent."""

    @property
    def kind(self) -> str:
        """Whether requests wait for answers: ``open loop``, ``closed loop``, ``capped`` or ``saturated``."""
        ...

    def load(self, seed: int) -> Load:
        """Return the requests; what the data leave open is drawn from the seed."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
@typed_fields()
class Sent:
    """Requests that the data list one by one.

    Parameters
    ----------
    trace
        The requests, as they were sent or scheduled.
    clients
        The limit of the client that the data show.
    """

    trace: Trace
    clients: Concurrency | None = None

    @property
    def kind(self) -> str:
        """By the client's limit; one that was reached by requests of a schedule is a cap."""
        if self.clients is None:
            return "open loop"
        return "capped" if self.trace.frame["arrival"].n_unique() > 1 else "closed loop"

    @typed()
    def load(self, seed: int) -> Load:
        """Return the requests."""
        del seed
        return Load(self.trace, self.clients)


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Closed:
    """A number of requests in flight, all of which are sent at the start: the first ones are a burst.

    Parameters
    ----------
    prompt_tokens, output_tokens
        Nominal lengths; each request's are uniform between ``least`` of them and them.
    concurrency
        Requests in flight.
    requests
        Requests in all, the burst among them.
    least
        The shortest length, as a share of the nominal one; 1: all are alike.

    Examples
    --------
    >>> load = Closed(prompt_tokens=1000, output_tokens=100, concurrency=4, requests=40).load(0)
    >>> len(load.trace), load.clients, load.trace.frame["prompt_tokens"].min() >= 800
    (40, Concurrency(most=4, gap_s=0.0, of='requests'), True)
    """

    prompt_tokens: int
    output_tokens: int
    concurrency: int
    requests: int
    least: float = 0.8

    def __post_init__(self) -> None:
        for name in ("prompt_tokens", "output_tokens", "concurrency", "requests"):
            _check.count(f"{name} of a closed load", getattr(self, name))
        _check.fraction("least of a closed load", self.least)

    @property
    def kind(self) -> str:
        """How requests are sent."""
        return "closed loop"

    @typed()
    def load(self, seed: int) -> Load:
        """Return the requests, with lengths drawn from the seed."""
        generator = drawing(seed)
        prompts, outputs = (
            generator.integers(max(1, round(self.least * nominal)), nominal + 1, self.requests)
            for nominal in (self.prompt_tokens, self.output_tokens)
        )
        trace = Trace.from_columns(
            arrival=np.zeros(self.requests), prompt_tokens=prompts, output_tokens=outputs, name="closed"
        )
        return Load(trace, Concurrency(self.concurrency))


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Saturated:
    """A server that is kept full, measured while it is.

    Parameters
    ----------
    prompt_tokens
        The length of each prompt.
    edges, counts
        A histogram of the lengths of outputs: ``counts[i]`` lie between ``edges[i]`` and ``edges[i + 1]``.
    concurrency
        Requests that run at once.
    """

    prompt_tokens: int
    edges: Sequence[float]
    counts: Sequence[int]
    concurrency: int

    @property
    def kind(self) -> str:
        """How requests are sent."""
        return "saturated"

    @typed()
    def load(self, seed: int) -> Load:
        """Return four times as many requests as run at once."""
        generator = drawing(seed)
        requests = 4 * self.concurrency
        shares = np.asarray(self.counts, dtype=np.float64)
        bins = generator.choice(len(self.counts), size=requests, p=shares / shares.sum())
        low, high = (np.asarray(side, dtype=np.float64) for side in (self.edges[:-1], self.edges[1:]))
        outputs = np.rint(generator.uniform(low[bins], high[bins])).astype(np.int64)
        trace = Trace.from_columns(
            arrival=np.zeros(requests),
            prompt_tokens=np.full(requests, self.prompt_tokens),
            output_tokens=np.maximum(outputs, 1),
            name="saturated",
        )
        return Load(trace, Concurrency(self.concurrency), steady=True)


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Spaced:
    """Requests of equal lengths with Gamma gaps, as ``vllm bench serve --burstiness`` sends them.

    Parameters
    ----------
    prompt_tokens, output_tokens
        The lengths.
    requests
        How many.
    rate
        Requests a second.
    burstiness
        The shape of the gaps' Gamma distribution: 1 is Poisson, more is steadier.
    """

    prompt_tokens: int
    output_tokens: int
    requests: int
    rate: float
    burstiness: float = 1.0

    @property
    def kind(self) -> str:
        """How requests are sent."""
        return "open loop"

    @typed()
    def load(self, seed: int) -> Load:
        """Return the requests, with gaps drawn from the seed."""
        client = BenchmarkClient(seed=seed, burstiness=self.burstiness)
        trace = Trace.from_columns(
            arrival=client.times(self.requests, self.rate, seed),
            prompt_tokens=np.full(self.requests, self.prompt_tokens),
            output_tokens=np.full(self.requests, self.output_tokens),
            name="spaced",
        )
        return Load(trace)


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class SharedPrompts:
    """A few prompts that are sent over and over at a constant rate, as inference-perf's shared prefixes are.

    Parameters
    ----------
    systems
        System prompts.
    users
        Prompts that begin with each of them; each prompt is sent again and again, in turn.
    system_tokens
        Tokens that the prompts of a system prompt share.
    prompt_tokens
        Tokens of a prompt in all.
    output_tokens
        Tokens of an answer.
    rate
        Requests a second, equally spaced.
    requests
        How many.
    """

    systems: int
    users: int
    system_tokens: int
    prompt_tokens: int
    output_tokens: int
    rate: float
    requests: int

    @property
    def kind(self) -> str:
        """How requests are sent."""
        return "open loop"

    @typed()
    def load(self, seed: int) -> Load:
        """Return the requests; the order of the prompts is drawn from the seed once."""
        order = drawing(seed).permutation(self.systems * self.users)
        chosen = order[np.arange(self.requests) % len(order)]
        blocks = [self._blocks(int(prompt)) for prompt in range(len(order))]
        trace = Trace.from_columns(
            arrival=Regular().times(self.requests, self.rate, seed),
            prompt_tokens=np.full(self.requests, self.prompt_tokens),
            output_tokens=np.full(self.requests, self.output_tokens),
            prefix=[blocks[prompt] for prompt in chosen],
            prefix_block_tokens=_BLOCK,
            name="shared prompts",
        )
        return Load(trace)

    def _blocks(self, prompt: int) -> list[int]:
        """Return the ids of a prompt's full blocks: first those of its system prompt, then its own."""
        full, shared = self.prompt_tokens // _BLOCK, self.system_tokens // _BLOCK
        system = prompt // self.users
        own = _own(self.systems * shared + prompt * (full - shared), full - shared)
        return [*_own(system * shared, shared).tolist(), *own.tolist()]


def _own(first: int, count: int) -> NDArray[np.int64]:
    """Return consecutive ids."""
    return np.arange(first, first + count, dtype=np.int64)
