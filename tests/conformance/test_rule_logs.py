"""Logs of what a router saw: a changed decision is found, a broken log is refused."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.conformance import check_router, read_router_log
from paceline.errors import TraceError

LOGS = Path(__file__).parent / "logs" / "routers"
MIXED, QUEUES, DISPATCH, CONTEXT = (
    LOGS / name / "1.json.gz"
    for name in ("splitwise_mixed_pool", "splitwise_kv_jsq", "simdistserve_dispatch", "distserve_schedulers")
)


def changed(tmp_path: Path, log: Path, change: Callable[[Any], object]) -> Path:
    """Return a log of the first 20 requests, changed."""
    content = json.loads(gzip.decompress(log.read_bytes()))
    content["requests"] = content["requests"][:20]
    content["decisions"] = [each for each in content["decisions"] if row(each) < 20]
    change(content)
    copy = tmp_path / "changed.json"
    copy.write_text(json.dumps(content), encoding="utf-8")
    return copy


def row(decision: Any) -> int:
    """Return the last request that a decision names."""
    named = decision.get("requests") or decision.get("added") or [decision.get("request", 99)]
    return int(max(named))


@pytest.mark.parametrize(
    ("log", "change", "field"),
    [
        (MIXED, lambda log: log["decisions"][3].update(prompt_instance=0), "prompt instance"),
        (MIXED, lambda log: log["decisions"][3]["pools_after"]["mixed"].append(0), "pools"),
        (MIXED, lambda log: log["config"].update(prompt_max_pending_batch_tokens=0), None),
        (QUEUES, lambda log: log["decisions"][3].update(token_instance=0), "token instance"),
        (DISPATCH, lambda log: log["decisions"][1].update(instance=2), "instance"),
        (CONTEXT, lambda log: log["decisions"][0].update(requests=[]), "context batch"),
    ],
)
def test_a_change_is_found(
    tmp_path: Path, log: Path, change: Callable[[Any], object], field: str | None
) -> None:
    assert check_router(read_router_log(changed(tmp_path, log, lambda _: None)), leap=True) is None
    difference = check_router(read_router_log(changed(tmp_path, log, change)), leap=True)
    assert difference is not None
    assert field is None or field in difference.field


@pytest.mark.parametrize(
    ("log", "change", "said"),
    [
        (QUEUES, lambda log: log["decisions"].pop(), "one for each of the 20 requests, were 19"),
        (QUEUES, lambda log: log["decisions"].pop(4), "decision 4 must be of request 4, was of 5"),
        (QUEUES, lambda log: log["decisions"][0]["seen"]["pending_requests"].pop(), "for each of the"),
        (QUEUES, lambda log: log.update(router="splitwise-sim/Random"), "router must be one of RoundRobin"),
        (
            MIXED,
            lambda log: log["cluster"]["instances"][1].update(tag=None),
            r"instances\[1\].tag .* was null",
        ),
        (
            MIXED,
            lambda log: log["decisions"][2]["seen"]["pools"]["prompt"].pop(),
            "each of the 5 instances once",
        ),
        (DISPATCH, lambda log: log["decisions"].pop(0), "one of stage 'prefill' for request 0, had none"),
        (CONTEXT, lambda log: log["decisions"][0]["seen"].pop("waiting"), "must have waiting and unaccepted"),
        (CONTEXT, lambda log: log["decisions"][0].update(requests=[99]), "from 0 to 19, named 99"),
    ],
)
def test_a_broken_log_is_refused(
    tmp_path: Path, log: Path, change: Callable[[Any], object], said: str
) -> None:
    with pytest.raises(TraceError, match=said):
        check_router(read_router_log(changed(tmp_path, log, change)), leap=True)
