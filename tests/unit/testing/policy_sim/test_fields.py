"""Every field that expressions may name is known to the reference simulator."""

from __future__ import annotations

import math

import pytest

from field_values import ABOUT_A_REQUEST, OF_INSTANCE, OF_REQUEST
from paceline.policies import vllm
from paceline.testing.reference.policy_sim import Cluster, TraceRequest
from paceline.testing.reference.policy_sim.expression import timely
from paceline.testing.reference.policy_sim.pacing import Pace
from paceline.testing.reference.policy_sim.scope import View


@pytest.fixture
def cluster() -> Cluster:
    scheduler = vllm().scheduler.to_wire(num_blocks=9, defaults=(64, 4))
    instance = {
        "blocks": 8,
        "block_tokens": 16,
        "max_model_len": None,
        "cost": {"kind": "affine", "step": 10, "token": 1, "kv_token": 0},
        "scheduler": scheduler,
    }
    routing = {"on_arrival": {"rule": "round_robin"}, "on_prefilled": None, "on_answering": None, "every": []}
    return Cluster({"instances": [instance], "routing": routing}, [TraceRequest(0, 20, 3)])


def view(cluster: Cluster, now: int) -> View:
    replica, pace = cluster.replicas[0], Pace(interval=10, first=10)
    return View(now, cluster.replicas, pace, cluster.outcome.requests[0], inst=replica, here=replica)


@pytest.mark.parametrize(
    "name", [*OF_REQUEST, *(f"inst.{one}" for one in {**OF_INSTANCE, **ABOUT_A_REQUEST})]
)
def test_a_declared_field_has_a_value(cluster: Cluster, name: str) -> None:
    cluster.advance(0)
    assert math.isfinite(view(cluster, 0).field(name, 0))


@pytest.mark.parametrize("name", OF_REQUEST)
def test_a_field_that_changes_while_nothing_happens_is_timely(cluster: Cluster, name: str) -> None:
    request = cluster.outcome.requests[0]
    cluster.advance(0)
    values = {view(cluster, now).field(name, 0) for now in (0, 5)}
    assert timely({"field": name}) or len(values) == 1, f"{name} of {request}"
