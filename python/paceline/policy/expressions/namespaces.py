"""The namespaces `req`, `inst`, `slo`, `oracle`, `block` and `cluster`, and the fields that they declare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from paceline._check import said
from paceline._toml import close_matches
from paceline.errors import PolicyError
from paceline.policy.expressions.fields import FIELDS, Meaning, Source, Takes, define
from paceline.policy.expressions.kinds import Kind
from paceline.policy.expressions.tree import Expr, Field, Over, Reduction, lift

__all__ = ["Cluster", "Namespace", "UnknownField", "block", "cluster", "inst", "oracle", "req", "slo"]


class UnknownField(PolicyError, AttributeError):
    """An unknown field."""


class Namespace:
    """The base of namespaces, which have fields."""

    __slots__ = ("_space",)

    def __init__(self, space: str) -> None:
        self._space = space

    def __repr__(self) -> str:
        return self._space

    if not TYPE_CHECKING:  # a type checker sees only the declared fields

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            space = self._space.partition(".")[0]
            known = [field for owner, field in FIELDS if owner == space] or [
                method for method in dir(type(self)) if not method.startswith("_")
            ]
            raise UnknownField(f"{self._space} has no field {name!r}{close_matches(name, known)}")


class _Described:
    """A descriptor that declares a field."""

    def __init__(
        self,
        text: str,
        *,
        wire: str | None = None,
        kind: Kind = "number",
        unit: str = "",
        drifts: bool = False,
        source: Source = "reported",
    ) -> None:
        self._text, self._wire, self._kind, self._unit, self._drifts = text, wire, kind, unit, drifts
        self._source = source
        self.__doc__ = text

    takes: Takes = "nothing"

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        define(
            Meaning(
                space=owner.space,  # type: ignore[attr-defined]
                name=name,
                wire=self._wire or name,
                kind=self._kind,
                unit=self._unit,
                text=self._text,
                drifts=self._drifts,
                takes=self.takes,
                source=self._source,
            )
        )


class _Plain(_Described):
    """A field that is read as an attribute."""

    def __get__(self, instance: Namespace, owner: type) -> Expr:
        return Field(instance._space, self._name)


class _OfRequest(_Described):
    """A field of an instance that depends on the request: `inst.fits(req)`."""

    takes: Takes = "request"

    def __get__(self, instance: Namespace, owner: type) -> _Asked:
        return _Asked(Field(instance._space, self._name))


class _Asked:
    """The value of `inst.fits`, which must be called with the request."""

    __slots__ = ("_field",)

    def __init__(self, field: Field) -> None:
        self._field = field

    def __call__(self, request: Request) -> Expr:
        if not isinstance(request, Request):
            raise PolicyError(f"{self!r}, was {request!r}")
        return self._field

    def __repr__(self) -> str:
        return f"{self._field.space}.{self._field.name} takes the request: {self._field!r}"

    if not TYPE_CHECKING:  # operators without the call are an error, which says what would be right

        def _refused(self, *_: object) -> NoReturn:
            raise PolicyError(repr(self))

        __invert__ = __neg__ = __and__ = __rand__ = __or__ = __ror__ = _refused
        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __lt__ = __le__ = __gt__ = __ge__ = (
            _refused
        )


class _OfName(_Described):
    """A field that depends on the name of a class, a column of the trace or a gauge."""

    def __init__(
        self, text: str, *, takes: Takes, wire: str | None = None, unit: str = "", source: Source = "reported"
    ) -> None:
        super().__init__(text, wire=wire, unit=unit, source=source)
        self.takes = takes

    def __get__(self, instance: Namespace, owner: type) -> _AskedName:
        return _AskedName(instance._space, self._name, self.takes)


class _AskedName:
    """The value of `inst.requests_in` and its like, which must be called with a name."""

    __slots__ = ("_name", "_space", "_takes")

    def __init__(self, space: str, name: str, takes: Takes) -> None:
        self._space, self._name, self._takes = space, name, takes

    def __call__(self, name: str) -> Expr:
        if not isinstance(name, str):
            raise PolicyError(f"{self._space}.{self._name} takes the name of a {self._takes}, was {name!r}")
        return Field(self._space, self._name, name)


class Request(Namespace):
    """The fields of a request that its scheduler and router can see."""

    space = "req"

    arrival = _Plain("Time of its arrival.", wire="arrival_s", unit="s")
    age = _Plain("Time since its arrival.", wire="age_s", unit="s", drifts=True)
    waiting_time = _Plain(
        "Time since its last preemption, else since its arrival or migration here; 0 while it runs.",
        wire="waiting_s",
        unit="s",
        drifts=True,
    )
    idle_steps = _Plain("The same, in steps of its instance.", unit="steps", drifts=True)
    attained_time = _Plain("Time that it has run so far.", wire="attained_s", unit="s", drifts=True)
    joined = _Plain("Time at which it entered its class.", wire="joined_s", unit="s")
    level = _Plain("Level that it is at; needs a Levels.")
    stopped = _Plain(
        "Time at which it last stopped running or came to its instance; 1e18 while it runs, 0 if it never "
        "ran.",
        wire="stopped_s",
        unit="s",
    )
    prompt_tokens = _Plain("Length of its prompt.", unit="tokens")
    generated_tokens = _Plain("Output tokens generated so far.", unit="tokens", drifts=True)
    context_tokens = _Plain("Prompt and generated tokens together.", unit="tokens", drifts=True)
    kv_tokens = _Plain("Tokens of its KV that are kept, on GPU or CPU.", unit="tokens", drifts=True)
    cached_tokens = _Plain(
        "Tokens of its prompt that the prefix cache has as a step is formed; 0 while it runs. In keys only.",
        unit="tokens",
        drifts=True,
    )
    blocks = _Plain(
        "KV blocks it holds if it runs, else the blocks that its admission needs.", unit="blocks", drifts=True
    )
    phase = _Plain(
        "Its phase: prefill (no token yet), reasoning, or answering. Recomputing its KV after a preemption "
        "does not change it.",
        kind="phase",
    )
    priority = _Plain("The trace's column; smaller comes first.")
    score = _Plain("The trace's column.")
    column = _OfName("A further column of numbers of the trace; 1e18 where it has none.", takes="column")
    tenant = _Plain("The trace's column.", kind="tenant")
    quanta = _Plain("Whole quanta of tokens generated since it entered its class.", unit="quanta")
    preemptions = _Plain("Times it was preempted.")
    slack = _Plain(
        "Time until its pacer runs dry; negative if the user waits, 1e18 if it does not answer.",
        wire="slack_s",
        unit="s",
        drifts=True,
    )
    prefill_time = _Plain(
        "Predicted time of its prompt alone in a step of its instance.", wire="prefill_s", unit="s"
    )
    running = _Plain("Whether it is in the batch, and was not left out of the latest step.", kind="truth")


class Oracle(Namespace):
    """What no real scheduler knows of a request; the result of a policy that reads it says so."""

    space = "oracle"

    output_tokens = _Plain("Output tokens in all.", unit="tokens")
    remaining_tokens = _Plain("Output tokens not yet generated.", unit="tokens", drifts=True)
    reasoning_tokens = _Plain("Tokens of its output that are reasoning.", unit="tokens")


class Block(Namespace):
    """The fields of a cached block that no request holds, which `Eviction` reads."""

    space = "block"

    last_use = _Plain("Time at which it was freed last.", wire="used_s", unit="s")
    idle = _Plain(
        "Time since then, as of the latest moment at which its instance freed blocks.",
        wire="idle_s",
        unit="s",
        drifts=True,
    )
    uses = _Plain("Requests that have held it since its content was computed.", unit="requests")
    position = _Plain("Its place, from 0, in the sequence of the request that freed it last.", unit="blocks")


class Objectives(Namespace):
    """The bounds of the policy's `SLO`, in seconds."""

    space = "slo"

    ttft = _Plain("Bound on the time to the first token.", unit="s")
    tpot = _Plain("Bound on the mean time per token after the first.", unit="s")
    e2e = _Plain("Bound on the time from arrival to the last token.", unit="s")
    itl = _Plain("Bound on the longest gap between two tokens.", unit="s")


class Instance(Namespace):
    """The fields of an instance.

    Tokens are as of its last finished step; places, queues and blocks are as of now.
    With `Policy(reports=...)`, routers see both as of the latest report; what a router
    keeps itself is always as of now.
    """

    space = "inst"

    kv_tokens = _Plain("Tokens of KV it keeps, on GPU and CPU.", unit="tokens")
    incoming_requests = _Plain("Requests handed over to it whose KV it has not received.")
    incoming_tokens = _Plain("Tokens of KV of these.", unit="tokens")
    incoming_blocks = _Plain("KV blocks that these hold or need on it.", unit="blocks")
    gpu_kv_tokens = _Plain("Tokens of KV on the GPU.", unit="tokens")
    cpu_kv_tokens = _Plain("Tokens of KV swapped out to the CPU.", unit="tokens")
    free_blocks = _Plain("Free KV blocks.", unit="blocks")
    total_blocks = _Plain("All KV blocks.", unit="blocks", source="known")
    block_tokens = _Plain("Tokens in a KV block.", unit="tokens", source="known")
    free_cpu_blocks = _Plain("Free blocks of the CPU's memory for swapping.", unit="blocks")
    kv_usage = _Plain("Used blocks over all blocks, 0 to 1.")
    fits = _OfRequest("Whether as many blocks are free as the request needs.", kind="truth", source="known")
    running = _Plain("Requests in the batch.", unit="requests")
    waiting = _Plain("Requests queued: new or preempted, not swapped out.", unit="requests")
    swapped = _Plain("Requests swapped out.", unit="requests")
    requests = _Plain("Unfinished requests.", unit="requests")
    arrived = _Plain("Requests that have arrived at it since the start.", unit="requests")
    arrived_tokens = _Plain("Prompt tokens of these.", unit="tokens")
    finished = _Plain("Requests that have finished on it since the start.", unit="requests")
    finished_tokens = _Plain("Output tokens of these.", unit="tokens")
    prefilling_requests = _Plain(
        "Unfinished requests of which the prefill has not ended, queued ones included.", unit="requests"
    )
    decoding_requests = _Plain(
        "Unfinished requests of which the prefill has ended, queued ones included.", unit="requests"
    )
    reasoning_requests = _Plain("Unfinished requests in prefill or reasoning.", unit="requests")
    answering_requests = _Plain("Unfinished requests that answer.", unit="requests")
    fresh_answering_requests = _Plain(
        "Unfinished requests that answer and have not used up their first quantum.", unit="requests"
    )
    requests_in = _OfName(
        "Unfinished requests in a class of the scheduler.",
        takes="class",
        wire="class_requests",
        unit="requests",
    )
    answering_on_pace = _Plain("Whether every answering request has tokens left in its pacer.", kind="truth")
    running_tokens = _Plain("Prompt and generated tokens of the requests in the batch.", unit="tokens")
    context_blocks = _Plain(
        "Blocks that prompt and generated tokens of each request in the batch fill.", unit="blocks"
    )
    outstanding_tokens = _Plain("Prompt and generated tokens of all unfinished requests.", unit="tokens")
    mean_token_interval = _Plain(
        "Mean gap between the ends of its last 64 steps with decodes; 0 before the first.",
        wire="mean_token_interval_s",
        unit="s",
    )
    prefill_delay = _Plain(
        "Predicted time of all unfinished prompts, one after the other.",
        wire="prefill_delay_s",
        unit="s",
    )
    prefill_time = _OfRequest(
        "Predicted time of the request's prompt alone in a step.",
        wire="prefill_s",
        unit="s",
        source="known",
    )
    waiting_blocks = _Plain("Blocks that the admission of all queued requests needs.", unit="blocks")
    head_blocks = _Plain("Blocks that the admission of the head of the queue needs.", unit="blocks")
    role = _Plain("Its pool.", kind="role", source="known")
    prefix_tokens = _OfRequest(
        "Tokens of the request's prompt in its prefix cache.", unit="tokens", source="known"
    )
    index = _Plain("Its place in the cluster, from 0.", source="known")
    gauge = _OfName("The value of a monitor's gauge.", takes="gauge", source="kept")
    routed_requests = _Plain(
        "Unfinished requests that this router sent there.", unit="requests", source="kept"
    )
    routed_tokens = _Plain("Tokens of the prompts of these.", unit="tokens", source="kept")
    routed_since_report = _Plain(
        "Requests that this router sent there since the latest report.", unit="requests", source="kept"
    )
    routed_ever = _Plain(
        "Requests that this router sent there since the start.", unit="requests", source="kept"
    )
    index_blocks = _OfRequest(
        "Leading blocks of the request's prompt that the router's prefix index has for it.",
        unit="blocks",
        source="kept",
    )
    index_tokens = _OfRequest("The tokens of these blocks.", unit="tokens", source="kept")
    active_blocks = _Plain(
        "Distinct blocks of its unfinished requests, by weight, in the router's books.",
        unit="blocks",
        source="kept",
    )
    active_new_blocks = _OfRequest(
        "Full blocks of the request's prompt that are not among its active blocks.",
        unit="blocks",
        source="kept",
    )
    active_prefill_tokens = _Plain(
        "Prompt tokens of its requests without a first token in the router's books, less those that the "
        "prefix index had for it.",
        unit="tokens",
        source="kept",
    )

    def in_pool(self, *pools: str) -> Expr:
        """Whether the instance is in one of these pools."""
        if not pools:
            raise PolicyError(f"{self._space}.in_pool() takes the names of one or more pools, was empty")
        among = self.role == pools[0]
        for pool in pools[1:]:
            among = among | (self.role == pool)
        return among


class Candidate(Instance):
    """The candidate of a rule; `here` and `there` are the instances before and after a migration."""

    @property
    def here(self) -> Instance:
        """The instance that the request is on."""
        return Instance("inst.here")

    @property
    def there(self) -> Instance:
        """The instance that the rule picked."""
        return Instance("inst.there")


class Cluster(Namespace):
    """All instances of the cluster, or the instances of some pools."""

    def mean(self, of: Expr, *, within: str | Sequence[str] | None = None) -> Expr:
        """Return the mean of a number over instances."""
        return _over("mean", of, within)

    def min(self, of: Expr, *, within: str | Sequence[str] | None = None) -> Expr:
        """Return the smallest of a number over instances."""
        return _over("min", of, within)

    def max(self, of: Expr, *, within: str | Sequence[str] | None = None) -> Expr:
        """Return the largest of a number over instances."""
        return _over("max", of, within)

    def sum(self, of: Expr, *, within: str | Sequence[str] | None = None) -> Expr:
        """Return the sum of a number over instances."""
        return _over("sum", of, within)

    def count(self, of: Expr | bool = True, *, within: str | Sequence[str] | None = None) -> Expr:
        """Return the number of instances for which a condition holds; without one, of all instances."""
        return _over("count", of, within)

    def any(self, of: Expr, *, within: str | Sequence[str] | None = None) -> Expr:
        """Whether a condition holds for at least one instance."""
        return _over("any", of, within)

    def all(self, of: Expr, *, within: str | Sequence[str] | None = None) -> Expr:
        """Whether a condition holds for every instance."""
        return _over("all", of, within)


def _over(over: Reduction, of: Expr | bool, within: str | Sequence[str] | None) -> Expr:
    inner = lift(of)
    truth = over in ("count", "any", "all")
    if (inner.kind == "truth") is not truth or inner.kind not in ("truth", "number"):
        wanted = "a condition" if truth else "a number"
        raise PolicyError(f"cluster.{over}() takes {wanted}, was {inner!r}")
    for part in inner.walk():
        if isinstance(part, Over):
            raise PolicyError(f"cluster.{over}() must not hold another aggregate, was {part!r}")
        if isinstance(part, Field) and part.space in ("inst.here", "inst.there"):
            plain = repr(part).replace(part.space, "inst", 1)
            raise PolicyError(f"cluster.{over}() reads each instance as inst: {plain}, not {part!r}")
    return Over(over, inner, pools(within))


_LISTS = (tuple, list, set, frozenset)


def pools(within: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the names of pools as a tuple; None stands for all instances."""
    if within is None:
        return None
    names = (within,) if isinstance(within, str) else tuple(within) if isinstance(within, _LISTS) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise PolicyError(f"within must be the names of one or more pools, was {said(within)}")
    return names


req = Request("req")
"""The request that is ranked, routed or migrated."""

inst = Candidate("inst")
"""The candidate of a rule."""

oracle = Oracle("oracle")
"""What no real scheduler knows of the request."""

block = Block("block")
"""A cached block, in expressions."""

slo = Objectives("slo")
"""The objectives of the policy."""

cluster = Cluster("cluster")
"""All instances together."""
