"""Calls of the native engine: a configuration and a trace's columns in, the columns of a result out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from paceline import _core
from paceline._build import warn_of_debug_build
from paceline._clock import TICKS_PER_SECOND
from paceline._fork import use
from paceline.errors import InternalError, PolicyError
from paceline.policy.orders import OF_COLUMNS, OF_PRIORITIES, priorities
from paceline.policy.policy import Policy
from paceline.policy.shown import showing
from paceline.trace import Trace, TraceScan
from paceline.trace.answers import answer_blocks
from paceline.trace.parents import parent_rows

__all__ = [
    "NO_NAME",
    "coded",
    "columns",
    "configuration",
    "in_order",
    "models",
    "opened",
    "order_of",
    "reuse",
    "run",
    "streamed",
    "tenants",
]

warn_of_debug_build()

NO_NAME: Final = 2**32 - 1
"""The code of no name."""


def configuration(
    instances: Sequence[dict[str, Any]],
    *,
    routing: str | Mapping[str, Any],
    roles: Sequence[int] | None = None,
    leaving: Sequence[Mapping[str, Any]] = (),
    until_ticks: int | None = None,
    leap: bool = True,
    record_decisions: bool = False,
    **parts: object,
) -> bytes:
    """Return the engine's configuration in its wire format.

    Parameters
    ----------
    instances
        A dictionary for each instance, as `Instance.to_wire` returns it, with its
        ``scheduler``.
    routing
        The rules, as `Policy.to_wire` returns them, or the name of a rule for arrivals.
    roles
        The code of each instance's pool at the start; None: all are in one pool.
    leaving
        The pools of instances on their way from one pool to another.
    until_ticks, leap, record_decisions
        The engine's other settings; ticks are picoseconds.
    **parts
        The parts that a replay may do without, None where it does:

        - ``links``, ``pace``: the network between the instances (None: transfers take no time), and how
          fast users read;
        - ``handover``: how requests that migrate take memory (None: their KV waits off the GPU);
        - ``entrance``: the stages that requests pass on their way to the routers;
        - ``clients``: the limit of what is in flight;
        - ``routers``: the settings of the routers (None: one, which sees instances as they are);
        - ``lockstep``: the groups of instances that start their steps together, and what each shares;
        - ``stores``: the stores of KV below the tiers of instances;
        - ``record_between``, ``record_most``: when steps must start and transfers must be sent to be
          recorded, ``from`` and before ``to``, and the most entries: one for each step, and one for each
          request in it;
        - ``sample``: ticks between samples, ``every``, and the ``most`` samples.
    """
    if isinstance(routing, str):
        routing = {"on_arrival": {"rule": routing}, "on_prefilled": None, "on_answering": None, "every": []}
    return msgspec.json.encode(
        {
            "instances": [{"kv_bytes_per_token": 0, **instance} for instance in instances],
            "routing": routing,
            "roles": [0] * len(instances) if roles is None else list(roles),
            "leaving": list(leaving),
            **dict.fromkeys(("links", "handover", "lockstep", "pace")),
            **{name: part for name, part in parts.items() if part is not None},
            "until": until_ticks,
            "leap": leap,
            "record_decisions": record_decisions,
        }
    )


def run(
    instances: Sequence[dict[str, Any]],
    columns: Mapping[str, Any],
    *,
    calls: Sequence[Callable[..., Any]] = (),
    progress: Callable[[_core.Progress], object] | None = None,
    threads: int = 1,
    **parts: Any,  # noqa: ANN401 - of several types; `configuration` says which
) -> _core.Outcome:
    """Run the engine on a configuration in its wire format.

    Parameters
    ----------
    instances
        A dictionary for each instance, as of `configuration`.
    columns
        The trace's columns by name, as `columns` returns them.
    calls
        The Python functions among the rules.
    progress
        Called at most ten times a second.
    threads
        How many threads replay the instances, if these do not influence each other.
    **parts
        The other parts of the configuration.

    Returns
    -------
    _core.Outcome
        The columns and counters of the replay.

    Raises
    ------
    InternalError
        If a bug is found in the engine; it has the configuration.
    """
    use()
    text = configuration(instances, **parts)
    try:
        routers = [showing(call) for call in calls] or None
        return _core.replay(text, columns, progress, routers, threads)
    except InternalError as error:
        error.configuration.setdefault("engine.json", text.decode())
        raise


def opened(
    instances: Sequence[dict[str, Any]],
    columns: Mapping[str, Any],
    *,
    calls: Sequence[Callable[..., Any]] = (),
    **parts: Any,  # noqa: ANN401 - as of `run`
) -> _core.Simulation:
    """Open the engine without requests, as `run` would run it; ``columns`` are empty."""
    use()
    text = configuration(instances, **parts)
    return _core.Simulation(text, columns, [showing(call) for call in calls] or None)


def streamed(
    instances: Sequence[dict[str, Any]],
    columns: Mapping[str, Any],
    *,
    calls: Sequence[Callable[..., Any]] = (),
    state: bytes | None = None,
    **parts: Any,  # noqa: ANN401 - as of `run`
) -> _core.Stream:
    """Open the engine for a trace in chunks, at the start or at a state; ``columns`` are empty."""
    use()
    text = configuration(instances, **parts)
    if state is not None:
        return _core.Stream.resume(text, columns, state)
    return _core.Stream(text, columns, [showing(call) for call in calls] or None)


def columns(
    trace: Trace,
    policy: Policy,
    *,
    sessions: bool = False,
    served: Collection[str] = (),
    scan: TraceScan | None = None,
) -> dict[str, Any]:
    """Return the columns of a trace that the policy and the clients read, as the engine takes them.

    Parameters
    ----------
    trace
        The requests.
    policy
        The policy. Its order may need a rank, its expressions may read priority,
        score or tenant, and its prefix cache needs to know what prompts share.
    sessions
        Whether clients count sessions.
    served
        The models that instances serve.
    scan
        The trace of which this is a chunk, if it is one: the chunks get the same codes and columns.

    Returns
    -------
    dict
        Arrays by name.

    Raises
    ------
    PolicyError
        If the policy needs a column that the trace does not have.
    """
    whole = trace if scan is None else scan
    arrival, prompt, output = trace.columns_for_engine()
    given: dict[str, Any] = {"arrival_ticks": arrival, "prompt_tokens": prompt, "output_tokens": output}
    if "reasoning_tokens" in trace.frame.columns:
        given["reasoning_tokens"] = trace.frame.get_column("reasoning_tokens").fill_null(0).to_numpy()
    order = order_of(policy)
    seen = set(policy.columns)
    if policy.calls:  # a Python function may read every column
        seen |= {name for name in ("priority", "score", "tenant") if name in trace.frame.columns}
    if "priority" in seen:
        if order not in ("arrival", "priority"):
            raise PolicyError(f"order {order!r} cannot go with rules on req.priority; rank by an expression")
        given["priority"] = _column(trace, "priority", "req.priority").cast(pl.Int64).to_numpy()
    elif order in OF_PRIORITIES:
        column = _column(trace, "priority", f"order {order!r}").cast(pl.Int64).to_numpy()
        given["priority"] = priorities(order, column, output)
    elif order == "score":
        given["priority"] = in_order(_column(trace, "score", "order 'score'").to_numpy())
    elif order == "longest_output":
        given["priority"] = -output.astype(np.int64)
    if "score" in seen:
        given["score"] = _column(trace, "score", "req.score").to_numpy()
    if policy.numbers:
        given["numbers"] = [_number(trace, name) for name in policy.numbers]
    seen |= _grouped_by(policy) & {"tenant"}
    if "tenant" in seen:
        reader = _reader("tenant", policy)
        given["tenant"] = coded(_column(trace, "tenant", reader, whole=False), _places(tenants(whole)))
    if policy.reads_prefixes:
        given.update(_prefixes(trace.frame, trace.prefix_block_tokens))
    if "prefix" in policy.affinities:
        _column(trace, "prefix", "affinity('prefix')", whole=False)
        given.update(_prefixes(trace.frame, trace.prefix_block_tokens))
    if "session" in _grouped_by(policy):
        given["session"] = _sessions(_column(trace, "session", _reader("session", policy), whole=False))
    if served and "model" in trace.frame.columns:
        given["model"] = coded(trace.frame.get_column("model"), _places(models(whole, served)))
    if "adapter" in trace.frame.columns and any(one.loras is not None for one in policy.schedulers):
        given["adapter"] = coded(trace.frame.get_column("adapter"), _places(_named(whole, "adapter")))
    given.update(_waits(trace.frame))
    given.update(_cancels(trace.frame, any_row=scan is not None))
    if sessions and "session" in trace.frame.columns:
        given["session"] = _sessions(trace.frame.get_column("session"))
    return given


def reuse(
    trace: Trace, block_tokens: int, *, full_blocks: bool, answers: bool
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64], int, int, int]:
    """Return what a prefix cache finds in a trace by its capacity, as `_core.reuse` does."""
    use()
    arrival, prompt, output = trace.columns_for_engine()
    columns = {
        "arrival_ticks": arrival,
        "prompt_tokens": prompt,
        "output_tokens": output,
        **_prefixes(trace.frame, trace.prefix_block_tokens),
    }
    return _core.reuse(columns, block_tokens, full_blocks=full_blocks, answers=answers)


_NO_NUMBER = 1e18
"""What `req.column` is where a trace has no number: after every other."""


def _number(trace: Trace, name: str) -> NDArray[np.float64]:
    """Return a further column of numbers that expressions read."""
    values = _column(trace, name, f"req.column({name!r})", whole=False)
    if not (values.dtype.is_numeric() or values.dtype == pl.Boolean):
        raise PolicyError(
            f"req.column({name!r}) needs a column of numbers; in {trace.name} it has the type {values.dtype}"
        )
    return values.cast(pl.Float64).fill_null(_NO_NUMBER).to_numpy()


def _waits(frame: pl.DataFrame) -> dict[str, Any]:
    """Return the answers for which requests wait, if any does."""
    given: dict[str, Any] = {}
    if "think_time" in frame.columns and frame.get_column("think_time").count():
        given["think_ticks"] = _ticks(frame.get_column("think_time"), missing=2**64 - 1)
        given["session"] = _sessions(frame.get_column("session"))
    if "parents" in frame.columns and (frame.get_column("parents").list.len() > 0).any():
        given["parent_ends"], given["parent_rows"] = parent_rows(frame)
        given["delay_ticks"] = _ticks(_or_null(frame, "delay"), missing=0)
    if given and "not_before" in frame.columns:
        given["not_before_ticks"] = _ticks(frame.get_column("not_before"), missing=0)
    return given


def _cancels(frame: pl.DataFrame, *, any_row: bool) -> dict[str, Any]:
    """Return when clients cancel requests, if any does; with `any_row` one of another chunk may be."""
    given: dict[str, Any] = {}
    if "cancel_after" in frame.columns and (any_row or frame.get_column("cancel_after").count()):
        given["cancel_after_ticks"] = _ticks(frame.get_column("cancel_after"), missing=2**64 - 1)
    if "cancel_after_tokens" in frame.columns and (
        any_row or frame.get_column("cancel_after_tokens").count()
    ):
        tokens = frame.get_column("cancel_after_tokens").fill_null(NO_NAME)
        given["cancel_after_tokens"] = tokens.to_numpy()
    return given


def _or_null(frame: pl.DataFrame, name: str) -> pl.Series:
    """Return a column of numbers, without values if the frame does not have it."""
    if name in frame.columns:
        return frame.get_column(name)
    return pl.Series(name, [None] * frame.height, dtype=pl.Float64)


def _ticks(seconds: pl.Series, *, missing: int) -> NDArray[np.uint64]:
    ticks = (seconds * TICKS_PER_SECOND).round().cast(pl.UInt64).fill_null(missing)
    return ticks.to_numpy().astype(np.uint64, copy=False)


def _grouped_by(policy: Policy) -> frozenset[str]:
    """Return the columns by which rules group requests, without reading them in expressions."""
    return frozenset(policy.affinities) | frozenset(policy.blocks) | policy.grouped


def _reader(column: Literal["tenant", "session"], policy: Policy) -> str:
    """Return what reads a column, as a policy says it."""
    if column in policy.affinities:
        return f"affinity({column!r})"
    if column in policy.grouped:
        return f"accumulated(by={column!r})"
    return f"hold(blocks={column!r})" if column in policy.blocks else f"req.{column}"


def tenants(trace: Trace | TraceScan) -> list[str]:
    """Return the names of a trace's tenants, in the order of their codes."""
    return _named(trace, "tenant")


def models(trace: Trace | TraceScan, served: Collection[str]) -> list[str]:
    """Return the names of the models that are served or asked for, in the order of their codes."""
    return sorted({*served, *_named(trace, "model")})


def _named(trace: Trace | TraceScan, column: str) -> list[str]:
    """Return the distinct names in a column, in order; none without it."""
    if isinstance(trace, TraceScan):
        return trace.names(column)
    if column not in trace.frame.columns:
        return []
    return trace.frame.get_column(column).drop_nulls().unique().sort().to_list()


def in_order(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return whole numbers in the order of finite numbers, equal for equal ones; the engine ranks by them."""
    # Of floats of one sign, the order is that of their bits; of negative ones, the opposite. -0.0 equals 0.0.
    bits = (scores + 0.0).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def coded(names: pl.Series, codes: Mapping[str, int]) -> NDArray[np.uint32]:
    """Return the codes of names; of no name, and of one without a code, `NO_NAME`."""
    if not codes:
        return np.full(len(names), NO_NAME, dtype=np.uint32)
    numbers = names.replace_strict(codes, default=NO_NAME, return_dtype=pl.UInt32)
    return numbers.fill_null(NO_NAME).to_numpy()


def _places(known: Sequence[str]) -> dict[str, int]:
    """Return the place of each name."""
    return {name: place for place, name in enumerate(known)}


def _column(trace: Trace, column: str, reader: str, *, whole: bool = True) -> pl.Series:
    """Return a column that ``reader`` needs, in every row or (not ``whole``) in some."""
    if column not in trace.frame.columns:
        raise PolicyError(
            f"{reader} needs a trace with the column {column}; "
            f"{trace.name} has {', '.join(trace.frame.columns)}"
        )
    values = trace.frame.get_column(column)
    if whole and values.null_count():
        row = int(values.is_null().arg_true()[0])
        raise PolicyError(f"{reader} needs a {column} in every row; row {row} of {trace.name} has none")
    return values


def order_of(policy: Policy) -> str:
    """Return the queue order that needs a column of the trace, if a scheduler has one."""
    named = {"arrival" if scheduler.ranks else scheduler.order for scheduler in policy.schedulers}
    ordered = sorted(map(str, named & OF_COLUMNS))
    if len(ordered) > 1:
        raise PolicyError(
            f"schedulers of pools must not have the orders {' and '.join(ordered)} at once, as a request "
            "has one rank"
        )
    return ordered[0] if ordered else "arrival"


def _prefixes(frame: pl.DataFrame, block_tokens: int | None) -> dict[str, Any]:
    if "prefix" in frame.columns and block_tokens is not None:
        ids = frame.get_column("prefix").fill_null([])
        answers = answer_blocks(frame, block_tokens) if "session" in frame.columns else {}
        return {
            **answers,
            "prefix_ends": ids.list.len().cast(pl.UInt64).cum_sum().to_numpy(),
            "prefix_ids": ids.explode(empty_as_null=False).cast(pl.UInt64).to_numpy(),
            "prefix_block_tokens": block_tokens,
        }
    if "session" in frame.columns:
        return {"session": _sessions(frame.get_column("session"))}
    return {}


def _sessions(sessions: pl.Series) -> NDArray[np.uint32]:
    """Return sessions as whole numbers from 0."""
    return (sessions.rank("dense") - 1).cast(pl.UInt32).fill_null(NO_NAME).to_numpy()
