"""INV-8: no request waits forever."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from differential.engine import engine, rows_of_engine
from differential.strategies import Case, cases
from paceline.testing.reference import Request, VllmV1Config


def why_not(request: Request, config: VllmV1Config) -> str | None:
    """Return why a request cannot fit into an empty instance. The last token is never in the cache."""
    tokens = request.prompt_tokens + request.output_tokens
    if config.max_model_len is not None and tokens > config.max_model_len:
        return "max_model_len"
    return "blocks" if (config.num_blocks - 1) * config.block_size < tokens - 1 else None


@given(case=cases())
def test_a_request_is_rejected_exactly_when_no_instance_could_hold_it(case: Case) -> None:
    for request, row in zip(case.requests, rows_of_engine(engine(case, leap=True)), strict=True):
        obstacles = [why_not(request, config) for config, _ in case.instances]
        assert (row.status == "rejected") == all(obstacles)
        assert row.reason is None or row.reason in obstacles


@given(case=cases())
def test_the_rejected_change_nothing_for_the_others(case: Case) -> None:
    rows = rows_of_engine(engine(case, leap=True))
    pairs = list(zip(case.requests, rows, strict=True))
    served = [request for request, row in pairs if row.status != "rejected"]
    alone = rows_of_engine(engine(replace(case, requests=served), leap=True)) if served else []
    assert alone == [row for row in rows if row.status != "rejected"]
