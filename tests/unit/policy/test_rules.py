"""Routing rules: where each field may be used, which rules always pick, and the wire form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from paceline import Affine, Cluster, Instance, Links, Trace, replay
from paceline._native import columns, tenants
from paceline.errors import ConfigError, PolicyError, PolicyWarning
from paceline.objectives import SLO
from paceline.policy import (
    Class,
    Live,
    Pace,
    Policy,
    Pools,
    Scheduler,
    cluster,
    first_of,
    inst,
    migrate,
    oracle,
    pick,
    req,
    slo,
    stay,
)


def make(**fields: Any) -> Callable[[], object]:
    """Return what makes a policy of some fields."""
    return lambda: Policy(name="mine", **fields)


LEAST, MOST = pick(min=inst.kv_usage), pick(max=inst.kv_usage)


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (
            make(on_arrival=pick(min=inst.here.requests)),
            r"min of pick\(\) in on_arrival must not read inst\.here\.requests; a request that arrives "
            r"is on no instance yet: use inst, the candidate",
        ),
        (make(on_arrival=pick(min=inst.there.requests)), r"must not read inst\.there\.requests"),
        (
            make(on_arrival=stay()),
            r"on_arrival must not have stay\(\): a request that arrives is on no instance",
        ),
        (
            make(on_arrival=pick(min=inst.requests, where=inst.waiting == 0)),
            r"on_arrival must always pick an instance, but pick\(.*\) may pick none; end with an alternative "
            r"without where and accept: first_of\(pick\(",
        ),
        (make(on_arrival=pick(min=inst.requests, accept=inst.fits(req))), r"must always pick an instance"),
        (
            make(on_arrival=pick(min=inst.requests).unless(inst.there.waiting > 9)),
            r"must always pick an instance",
        ),
        (
            make(on_arrival=first_of("fewest_requests", LEAST)),
            r"on_arrival never reaches rule 2 of first_of\('fewest_requests', .*\): 'fewest_requests'",
        ),
        (
            make(on_answering=pick(min=inst.there.requests)),
            r"min of pick\(\) in on_answering must not read inst\.there\.requests; no instance is picked yet",
        ),
        (
            make(on_answering=LEAST.unless(inst.fits(req))),
            r"unless\(\) in on_answering must not read inst\.fits\(req\); the choice is made: use inst",
        ),
        (
            make(on_answering=stay(when=inst.fits(req))),
            r"stay\(\) in on_answering must not read inst\.fits",
        ),
        (
            make(on_answering=stay(when=inst.there.fits(req))),
            r"staying has no candidate: use inst\.here",
        ),
        (
            make(on_prefilled=LEAST.unless(inst.here.waiting)),
            r"unless\(\) in on_prefilled must be a condition",
        ),
        (make(on_arrival="fewest"), r"on_arrival must be one of round_robin, .* or a rule such as pick\(\)"),
        (
            make(on_arrival=inst.requests),
            r"on_arrival must be a rule .* a Python function, was inst\.requests",
        ),
        (make(on_arrival=Policy), r"on_arrival must be a rule"),
        (lambda: first_of(LEAST), r"first_of\(\) must have two or more rules, had 1"),
        (lambda: first_of(LEAST, 3), r"a rule of first_of\(\) must be .*was 3"),  # type: ignore[arg-type]
        (lambda: pick(), r"pick\(\) must have one of min and max, was min=None, max=None"),
        (lambda: pick(min=inst.requests, max=inst.waiting), r"pick\(\) must have one of min and max"),
        (lambda: pick(min=inst.fits(req)), r"min of pick\(\) must be a number, was inst\.fits\(req\)"),
        (lambda: pick(min=inst.waiting, where=inst.waiting), r"where of pick\(\) must be a condition"),
        (lambda: pick(min=[]), r"pick\(\) must have at least one key in min or max, had none"),
        (lambda: stay(when=req.quanta), r"when of stay\(\) must be a condition, was req\.quanta"),
        (
            make(on_arrival=pick(min=inst.kv_usage, within="decode")),
            r"there is no pool 'decode'; there is no pool",
        ),
        (
            make(on_arrival=pick(min=inst.kv_usage, within="decod"), pools=Pools(prefill=1, decode=1)),
            r"there is no pool 'decod'; close to it: decode",
        ),
        (
            make(on_arrival=pick(min=inst.requests_in("x"))),
            r"there is no class 'x'; there is no class at all",
        ),
        (
            make(on_arrival=pick(min=inst.prefill_delay / slo.ttft), slo=SLO(tpot=1)),
            r"slo\.ttft needs a policy with slo=SLO\(ttft=\.\.\.\); the bounds there are: tpot",
        ),
        (
            make(on_arrival=first_of(pick(min=inst.requests, where=inst.answering_on_pace), LEAST)),
            r"inst\.answering_on_pace needs a policy with a pace, such as pace=Pace\(tpot=0\.1\)",
        ),
        (make(scheduler=Scheduler(classes=[Class("x", when=req.slack < 0)])), r"req\.slack needs a policy"),
        (make(every={0: []}), r"every must have periods of 1e-9 or more seconds, below 1e6, was 0\.0"),
        (
            make(every={1: [LEAST]}),
            r"every must have lists of migrate\(\), flip\(\), scale\(\) and gauge\(\), was pick\(",
        ),
        (make(every=3), r"every must be \{seconds: \[migrate\(\.\.\.\), \.\.\.\]\}, was 3"),
        (make(pools=3), r"pools must be a Pools, was 3"),
        (make(pace=0.1), r"pace must be a Pace, was 0\.1"),
        (make(scheduler=None), r"scheduler must be a Scheduler, or one for each pool by its name, was None"),
        (
            lambda: migrate(source=MOST, target=LEAST, choose=LEAST),
            r"min of choose of migrate\(\) must not read inst\.kv_usage",
        ),
        (
            lambda: migrate(source=pick(min=req.quanta), target=LEAST, choose=pick(min=req.quanta)),
            r"min of source of migrate\(\) must not read req\.quanta; a monitor reads instances alone",
        ),
        (
            lambda: migrate(source=MOST, target=LEAST, choose=pick(min=req.quanta), when=inst.waiting > 1),
            r"when of migrate\(\) must not read inst\.waiting; the pair is found: use inst\.here",
        ),
        (
            lambda: migrate(
                source=pick(min=inst.waiting, accept=inst.waiting > 1), target=LEAST, choose=LEAST
            ),
            r"source of migrate\(\) must be a pick\(\) without accept, was pick\(",
        ),
        (
            lambda: migrate(source=MOST, target=LEAST, choose=pick(min=req.quanta, within="idle")),
            r"choose of migrate\(\) must be a pick\(\) without within, was pick\(",
        ),
        (
            lambda: Live(stages=0, last_blocks=1),
            r"stages of Live must be a whole number of at least 1, was 0",
        ),
        (lambda: Pools(), r"Pools must have at least one pool, had none"),
        (lambda: Pools(a=-1), r"instances of pool 'a' must be a whole number of at least 0, was -1"),
        (lambda: Pools(a=0, b=0), r"Pools must have at least one instance, had none: \{'a': 0, 'b': 0\}"),
        (
            lambda: Pools(a=2, b=1).roles(4),
            r"Pools\(a=2, b=1\) needs a cluster of 3 instances, was given one of 4",
        ),
        (lambda: Pace(tpot=0), r"tpot of a Pace must be 1e-09 or more seconds and below 1e6, was 0"),
        (lambda: Pace(tpot=1, first=-1), r"first of a Pace must be 0 or more seconds"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_when_it_is_built(
    attempt: Callable[[], object], message: str
) -> None:
    with pytest.raises(PolicyError, match=message):
        attempt()


def test_the_wire_of_rules_is_that_of_the_contract() -> None:
    policy = Policy(
        name="mine",
        on_arrival=first_of(
            pick(min=inst.prefill_delay, within="prefill", accept=inst.prefill_time(req) <= slo.ttft),
            pick(max=[inst.free_blocks, -inst.index], within=("prefill", "decode")),
        ),
        on_prefilled=first_of(stay(when=inst.here.role == "decode"), "round_robin"),
        on_answering=LEAST.unless(inst.here.fits(req) & ~inst.there.fits(req)),
        every={
            0.05: [
                migrate(
                    source=pick(max=inst.kv_usage, where=inst.waiting > 0, within="decode"),
                    target=LEAST,
                    choose=pick(min=req.context_tokens),
                    when=inst.here.kv_usage > inst.there.kv_usage,
                    live=Live(stages=3, last_blocks=16),
                )
            ]
        },
        pools=Pools(prefill=1, decode=2),
        pace=Pace(tpot=0.1, first=0.25, ttft=1.5),
        slo=SLO(ttft=2.0),
    )
    wire = policy.to_wire(instances=3)
    usage = {"min": [{"field": "inst.kv_usage"}], "where": None, "within": None}
    high = {"op": "gt", "args": [{"field": "inst.waiting"}, {"const": 0.0}]}
    assert wire["roles"] == [0, 1, 1]
    assert wire["pace"] == {"interval": 10**11, "first": 25 * 10**10, "ttft": 15 * 10**11}
    assert wire["routing"] == {
        "on_arrival": {
            "rule": "first_of",
            "rules": [
                {
                    "rule": "pick",
                    "min": [{"field": "inst.prefill_delay_s"}],
                    "where": None,
                    "accept": {"op": "le", "args": [{"field": "inst.prefill_s"}, {"const": 2.0}]},
                    "within": [0],
                },
                {
                    "rule": "pick",
                    "min": [
                        {"op": "neg", "args": [{"field": "inst.free_blocks"}]},
                        {"op": "neg", "args": [{"op": "neg", "args": [{"field": "inst.index"}]}]},
                    ],
                    "where": None,
                    "accept": None,
                    "within": [0, 1],
                },
            ],
        },
        "decode_on_arrival": None,
        "on_prefilled": {
            "rule": "first_of",
            "rules": [
                {"rule": "stay", "when": {"op": "eq", "args": [{"field": "here.role"}, {"const": 1.0}]}},
                {"rule": "round_robin"},
            ],
        },
        "on_answering": {
            "rule": "unless",
            "of": {"rule": "pick", **usage, "accept": None},
            "when": {
                "op": "and",
                "args": [{"field": "here.fits"}, {"op": "not", "args": [{"field": "there.fits"}]}],
            },
        },
        "every": [
            {
                "period": 5 * 10**10,
                "actions": [
                    {
                        "action": "migrate",
                        "source": {
                            "min": [{"op": "neg", "args": [{"field": "inst.kv_usage"}]}],
                            "where": high,
                            "within": [1],
                        },
                        "target": usage,
                        "choose": {"min": [{"field": "req.context_tokens"}], "where": None},
                        "when": {
                            "op": "gt",
                            "args": [{"field": "here.kv_usage"}, {"field": "there.kv_usage"}],
                        },
                        "live": {"stages": 3, "last_blocks": 16},
                    }
                ],
            }
        ],
    }


TRACE = Trace.from_columns(
    arrival=[0.0, 1.0, 2.0],
    prompt_tokens=[5, 5, 5],
    output_tokens=[2, 2, 2],
    tenant=["b", None, "a"],
    score=[0.5, -1.0, 2.0],
    priority=[3, 1, 2],
)
PLAIN = Trace.from_columns(arrival=[0.0], prompt_tokens=[5], output_tokens=[2])


def test_the_engine_gets_the_columns_that_a_policy_reads_and_no_others() -> None:
    routed = Policy(name="a", on_arrival=pick(min=inst.requests * req.score))
    assert set(columns(TRACE, Policy(name="a"))) == {"arrival_ticks", "prompt_tokens", "output_tokens"}
    assert columns(TRACE, routed)["score"].tolist() == [0.5, -1.0, 2.0]
    ranked = Policy(
        name="a", scheduler=Scheduler(classes=[Class("a", when=req.tenant == "a")], order=req.priority)
    )
    given = columns(TRACE, ranked)
    assert given["priority"].tolist() == [3, 1, 2]
    assert tenants(TRACE) == ["a", "b"]
    assert given["tenant"].tolist() == [1, 2**32 - 1, 0]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (
            Policy(name="a", scheduler=Scheduler(order=req.score)),
            r"req\.score needs a trace with the column score",
        ),
        (
            Policy(name="a", on_arrival=pick(min=inst.requests + req.priority)),
            r"req\.priority needs a trace with the column priority",
        ),
        (
            Policy(name="a", scheduler=Scheduler(classes=[Class("a", when=req.tenant == "a")])),
            r"req\.tenant needs a trace with the column tenant",
        ),
    ],
)
def test_a_column_that_the_trace_lacks_is_named(policy: Policy, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        replay(PLAIN, CLUSTER, policy)


CLUSTER = Cluster([Instance(cost=Affine(step_s=0.01), num_blocks=101)])


def test_a_tenant_that_a_window_lacks_has_no_request() -> None:
    """With c before all others the requests of a and b stay in their order, as under FCFS."""
    policy = Policy(name="a", scheduler=Scheduler(classes=[Class("a", when=req.tenant == "c")]))
    found = replay(TRACE, CLUSTER, policy).requests
    assert found["scheduled"].equals(replay(TRACE, CLUSTER).requests["scheduled"])


def test_a_tenant_that_is_nearly_one_of_the_trace_is_warned_of() -> None:
    named = Trace(TRACE.frame.with_columns(pl.col("tenant").replace({"a": "alpha", "b": "beta"})))
    policy = Policy(name="a", scheduler=Scheduler(classes=[Class("a", when=req.tenant == "alhpa")]))
    with pytest.warns(PolicyWarning, match="names the tenant 'alhpa', .* it has 'alpha'"):
        replay(named, CLUSTER, policy)


def test_a_prefix_that_no_instance_keeps_is_warned_of() -> None:
    policy = Policy(name="a", on_arrival=pick(max=inst.prefix_tokens(req)))
    with pytest.warns(PolicyWarning, match=r"inst\.prefix_tokens\(req\), which is 0 where no scheduler"):
        replay(PLAIN, CLUSTER, policy)


def test_a_rule_that_counts_over_all_pools_is_warned_of() -> None:
    policy = Policy(name="a", pools=Pools(prefill=1, decode=1), on_arrival="round_robin")
    with pytest.warns(PolicyWarning, match=r"on_arrival picks from all pools \(prefill, decode\)"):
        replay(PLAIN, Cluster([CLUSTER.instances[0]] * 2), policy)


def test_pools_need_a_cluster_of_their_size() -> None:
    with pytest.raises(PolicyError, match=r"Pools\(prefill=1, decode=1\) needs a cluster of 2 instances"):
        replay(PLAIN, CLUSTER, Policy(name="a", pools=Pools(prefill=1, decode=1)))


def test_a_pace_is_given_once() -> None:
    policy = Policy(name="a", pace=Pace(tpot=0.1))
    with pytest.raises(
        ConfigError, match=r"pace must be left out where the policy has one \(Pace\(tpot=0\.1\)\)"
    ):
        replay(PLAIN, CLUSTER, policy, pace=Pace(tpot=0.2))


def test_the_oracle_is_flagged_wherever_it_is_read() -> None:
    assert not Policy(name="a").uses_oracle
    assert Policy(name="a", on_arrival=pick(min=inst.requests * oracle.output_tokens)).uses_oracle
    assert Policy(name="a", scheduler=Scheduler(order=oracle.output_tokens)).uses_oracle
    choose = pick(min=oracle.output_tokens)
    assert Policy(name="a", every={1: [migrate(source=MOST, target=LEAST, choose=choose)]}).uses_oracle
    assert Policy(name="a", on_answering=LEAST.unless(oracle.output_tokens > 5)).uses_oracle


def test_any_rule_may_read_the_whole_cluster() -> None:
    crowded = cluster.mean(inst.requests) > 2 * inst.requests
    policy = Policy(
        name="a", on_answering=LEAST.unless(cluster.any(inst.fits(req)) & (inst.here.requests < 2))
    )
    assert policy.to_wire(instances=1)["routing"]["on_answering"]["when"]["args"][0]["over"] == "any"
    assert Policy(name="a", on_arrival=first_of(pick(min=inst.requests, where=crowded), LEAST))


def test_links_queue_in_gigabits_and_read_back() -> None:
    joined = Cluster(CLUSTER.instances, links=Links(gbps=100, latency_s=1e-6))
    assert joined.links is not None
    assert joined.links.to_wire() == {"bytes_per_s": 12.5e9, "latency": 10**6}
    assert Cluster.from_toml(joined.to_toml()) == joined != CLUSTER
    with pytest.raises(ConfigError, match=r"gbps of Links must be a finite number above 0, was 0"):
        Links(gbps=0)
    with pytest.raises(ConfigError, match=r"links of a Cluster must be Links or None, was 100"):
        Cluster(CLUSTER.instances, links=100)  # type: ignore[arg-type]


def test_what_a_transfer_moves_is_the_tokens_bytes_on_all_gpus() -> None:
    alone = Instance(model="llama-3.1-8b", gpu="h100-sxm")
    split = Instance(model="llama-3.1-8b", gpu="h100-sxm", tensor_parallel=2)
    assert alone.to_wire()["kv_bytes_per_token"] == split.to_wire()["kv_bytes_per_token"] == 128 * 1024
