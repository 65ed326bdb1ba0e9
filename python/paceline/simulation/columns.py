"""The columns of submitted requests, coded as the engine takes them, batch after batch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from paceline import _native
from paceline._check import said
from paceline.errors import ConfigError, TraceError
from paceline.policy import Policy
from paceline.simulation.turns import SessionBlocks
from paceline.trace import Trace

__all__ = ["DECLARED", "Encoder", "without_rows"]

DECLARED: Final = (
    *("reasoning_tokens", "priority", "score", "tenant", "model", "adapter", "session", "prefix"),
    *("cancel_after", "cancel_after_tokens"),
)
"""The optional columns that a simulation may have; it has them from its start."""

_WAITING: Final = ("think_time", "parents", "delay", "not_before")


def without_rows(values: Any) -> Any:  # noqa: ANN401 - an array, several, or a number
    """Return a column as the engine takes it, without its rows."""
    if isinstance(values, list):
        return [column[:0] for column in values]
    return values[:0] if isinstance(values, np.ndarray) else values


class _Codes:
    """Codes of names in the order in which they come."""

    def __init__(self, names: Collection[str] = ()) -> None:
        self._codes = {name: code for code, name in enumerate(names)}

    def of(self, names: pl.Series) -> NDArray[np.uint32]:
        """Return the codes of names, the largest number for no name."""
        for name in names.drop_nulls().unique(maintain_order=True):
            self._codes.setdefault(name, len(self._codes))
        return _native.coded(names, self._codes)


class Encoder:
    """Code batches of requests, so that names keep their codes from batch to batch.

    Parameters
    ----------
    policy
        The policy, which says what columns the engine reads.
    declared
        The optional columns that the requests have.
    tenants
        Tenants that are known at the start.
    served
        Names of the models that instances serve.
    block_tokens
        Tokens of one id of ``prefix``, or of a block of sessions' prompts.

    Raises
    ------
    ConfigError
        If a column is not one of `DECLARED`.
    PolicyError
        If the policy needs a column that is not declared.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        declared: Collection[str],
        tenants: Sequence[str],
        served: Collection[str],
        block_tokens: int,
    ) -> None:
        for name in declared:
            if name not in DECLARED:
                raise ConfigError(f"columns must be of {', '.join(DECLARED)}, had {said(name)}")
        if {"session", "prefix"} <= set(declared) and policy.reads_prefixes:
            raise ConfigError(
                "columns must have one of session and prefix where prompts share blocks: by sessions, the "
                "prompt of a turn continues the turn before with its answer; by ids, as they say; had both"
            )
        self._policy = policy
        self._declared = tuple(name for name in DECLARED if name in declared)
        self._served = served
        self._block_tokens = block_tokens
        self._codes = {
            "tenant": _Codes(sorted(tenants)),
            "session": _Codes(),
            "model": _Codes(sorted(served)),
            "adapter": _Codes(),
        }
        self._turns = SessionBlocks(block_tokens)

    def empty(self) -> dict[str, Any]:
        """Return the columns without a row, as a simulation starts.

        Raises
        ------
        PolicyError
            If the policy needs a column that is not declared.
        """
        neutral = {"prefix": [[]], "score": [0.0], "reasoning_tokens": [0], "priority": [0]}
        optional = {name: neutral.get(name, ["none"]) for name in self._declared}
        optional |= {name: [0.0] for name in self._policy.numbers if name not in optional}
        row = Trace.from_columns(
            arrival=[0.0],
            prompt_tokens=[1],
            output_tokens=[1],
            name="the simulation",
            prefix_block_tokens=self._block_tokens if "prefix" in self._declared else None,
            **optional,  # type: ignore[arg-type]
        )
        given = _native.columns(row, self._policy, served=self._served)
        given.update(self._shared(given, row.frame.clear()))
        return {name: without_rows(values) for name, values in given.items()}

    def of(self, batch: Trace) -> dict[str, Any]:
        """Return the columns of further requests as the engine takes them.

        Raises
        ------
        TraceError
            If a declared column is missing, one that is not declared is there, or requests wait for answers.
        """
        frame = batch.frame
        present = {name for name in (*DECLARED, *_WAITING) if name in frame.columns}
        for name in _WAITING:
            if name in present:
                raise TraceError(
                    f"{name}: a request that is submitted is sent at its arrival; submit it when the answer "
                    "that it waits for has come, or replay the whole trace"
                )
        if present != set(self._declared):
            missing = sorted(set(self._declared) - present)
            name = missing[0] if missing else min(present - set(self._declared))
            rule = "must be given" if missing else "must be left out"
            had = ", ".join(self._declared) or "no optional columns"
            raise TraceError(f"{name} {rule}, as the simulation was made with columns of {had}")
        given = _native.columns(batch, self._policy, served=self._served)
        for name, codes in self._codes.items():
            if name in given:
                given[name] = codes.of(frame.get_column(name))
        given.update(self._ranks(frame, given))
        given.update(self._shared(given, frame))
        return given

    def _ranks(self, frame: pl.DataFrame, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return whole numbers in the order of the column by which requests are ranked, if there is one."""
        order = _native.order_of(self._policy)
        if "priority" not in given or order not in ("priority", "score"):
            return {}
        values = frame.get_column(str(order))
        if order == "priority":
            return {"priority": values.cast(pl.Int64).to_numpy()}
        return {"priority": _native.in_order(values.to_numpy())}

    def _shared(self, given: Mapping[str, Any], frame: pl.DataFrame) -> dict[str, Any]:
        """Return the ids of the blocks of sessions, where requests have sessions and no ids."""
        if "session" not in given or "prefix_ids" in given:
            return {}
        sessions = self._codes["session"].of(frame.get_column("session"))
        if not self._policy.reads_prefixes:
            sessions = np.full_like(sessions, _native.NO_NAME)
        prompt, output = (frame.get_column(name).to_numpy() for name in ("prompt_tokens", "output_tokens"))
        return self._turns.of(sessions, prompt, output)
