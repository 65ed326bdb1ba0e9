"""The network between instances: what it may be, its files, and transfers worked out by hand."""

from __future__ import annotations

from importlib import resources
from typing import Any

import polars as pl
import pytest

from paceline import Affine, Cluster, Instance, Policy, Trace, inst, load_result, replay, req
from paceline.deployment import Links, Medium, Pair, Port, link_names
from paceline.errors import ConfigError
from paceline.hardware import Gpu
from paceline.kernels import Curve
from paceline.policy import Handover, PrefixCache, Scheduler, first_of, pick
from paceline.result import Result

# A step takes a second, and a token of KV a gigabyte, which 8 Gb/s carry in a second.
INSTANCE = Instance(cost=Affine(step_s=1.0), num_blocks=101, kv_bytes=10**9)
SECOND = Medium(gbps=8)
NODES = Links(
    port="ethernet-100",
    nodes=((0, 2), (1, 3)),
    inner=Medium(gbps=400, curve=Curve((1_000, 2_000), (5e-6, 6e-6))),
    uplink="infiniband-ndr",
    fabric=Medium(gbps=1_600, latency_s=1e-6),
    ports=(
        Port(instance=3, outer=Medium(gbps=25), inner="pcie-4-x16"),
        Port(instance=0, outer="ethernet-25"),
    ),
    pairs=(Pair(source=0, target=1, medium="nvlink-a100"), Pair(source=1, target=0, medium=Medium(gbps=3))),
)
ALL = [
    Links(gbps=100, latency_s=5e-6),
    Links(port="infiniband-ndr"),
    Links(gbps=100, per_node=2, inner="nvlink-h100"),
    NODES,
]


def routed(links: Links | None, sends: list[tuple[float, int, int, int]]) -> Result:
    """Replay transfers: when the request arrives, tokens of its prompt, its source and its target.

    The prompt is prefilled in a step of a second, so that its transfer is sent a second after the arrival.
    """
    trace = Trace.from_columns(
        arrival=[when for when, *_ in sends],
        prompt_tokens=[tokens for _, tokens, *_ in sends],
        output_tokens=[2 for _ in sends],
        priority=[source for _, _, source, _ in sends],
        score=[float(target) for *_, target in sends],
    )
    policy = Policy(
        name="by hand",
        on_arrival=first_of(pick(min=inst.index, where=inst.index == req.priority), pick(min=inst.index)),
        on_prefilled=pick(min=inst.index, where=inst.index == req.score),
    )
    return replay(trace, Cluster(4 * [INSTANCE], links), policy)


def test_a_transfer_to_an_idle_receiver_does_not_wait_for_a_busy_one() -> None:
    """Instance 3 sends 6 s to 1 from 1 s on, so that 0, which is to send 6 s to 1 at 1.5 s, waits until 7 s.

    Meanwhile 0 sends 1 s to 2: that takes 1 s, not the 12.5 s until the port has sent what came before.
    """
    result = routed(Links(gbps=8), [(0.0, 6, 3, 1), (0.5, 6, 0, 1), (0.5, 1, 0, 2)])
    assert result.requests["transfer"].to_list() == [6.0, 11.5, 1.0]


def test_instances_of_a_node_use_inner_ports_and_others_share_the_uplink() -> None:
    """Nodes are 0 and 1, 2 and 3. Their uplinks carry one transfer at a time: 0 to 2 for 4 s, then 1 to 3.

    From 0 to 1 the inner port takes half a second a token.
    """
    links = Links(gbps=8, per_node=2, inner=Medium(gbps=16), uplink=SECOND)
    sends = [(0.0, 4, 0, 2), (0.0, 4, 1, 3), (0.0, 4, 0, 1)]
    result = routed(links, sends)
    assert result.requests["transfer"].to_list() == [4.0, 8.0, 2.0]
    used = result.links.filter(pl.col("transfers") > 0)
    assert used.select("medium", "transfers", "bytes", "busy_s").rows() == [
        ("port 0 out", 1, 4 * 10**9, 4.0),
        ("inner port 0 out", 1, 4 * 10**9, 2.0),
        ("port 1 out", 1, 4 * 10**9, 4.0),
        ("inner port 1 in", 1, 4 * 10**9, 2.0),
        ("port 2 in", 1, 4 * 10**9, 4.0),
        ("port 3 in", 1, 4 * 10**9, 4.0),
        ("uplink 0 out", 2, 8 * 10**9, 8.0),
        ("uplink 1 in", 2, 8 * 10**9, 8.0),
    ]
    totals = result.totals()
    assert (totals.kv_transfers, totals.kv_transfer_bytes) == (3, 12 * 10**9)
    share = used["busy_share"].to_list()[-1]
    assert share == 8.0 / totals.simulated_s


def test_without_links_transfers_are_counted_and_take_no_time() -> None:
    result = routed(None, [(0.0, 4, 0, 2)])
    assert result.requests["transfer"].to_list() == [0.0]
    assert result.links.is_empty()
    assert (result.totals().kv_transfers, result.totals().kv_transfer_bytes) == (1, 4 * 10**9)


def test_links_of_a_result_are_saved_and_loaded(tmp_path: Any) -> None:
    result = routed(Links(gbps=8), [(0.0, 4, 0, 2)])
    loaded = load_result(result.save(tmp_path / "run"))
    assert loaded == result
    assert loaded.links.equals(result.links)
    assert not loaded.links.is_empty()


@pytest.mark.parametrize("links", ALL)
def test_links_survive_toml(links: Links) -> None:
    cluster = Cluster(4 * [INSTANCE], links)
    assert Cluster.from_toml(cluster.to_toml()) == cluster


def test_the_path_and_its_time_are_those_of_the_links() -> None:
    assert NODES.path(0, 1) == (Medium.load("nvlink-a100"),)
    assert NODES.path(0, 2) == (NODES.inner, NODES.inner)
    assert NODES.path(1, 3) == (NODES.inner, Medium.load("pcie-4-x16"))
    uplink = Medium.load("infiniband-ndr")
    assert NODES.path(3, 2) == (Medium(gbps=25), Medium.load("ethernet-100"), uplink, uplink, NODES.fabric)
    # 25 Gb/s are the slowest, and the fabric has the largest latency, a microsecond.
    assert NODES.seconds(3, 2, kv_bytes=25 * 10**9) == pytest.approx(8.000001, rel=1e-15)
    result = routed(NODES, [(0.0, 25, 3, 2)])
    assert result.requests["transfer"].to_list() == [8.000001]


def test_media_side_by_side_divide_a_message_evenly() -> None:
    one = Medium(gbps=8, latency_s=1.0, curve=Curve((1_000, 2_000), (5.0, 7.0)))
    four = one.beside(4)
    for size in (1, 1_000, 1_500, 10_000):
        assert four.seconds(4 * size) == pytest.approx(one.seconds(size))
    assert four.latency_s == 1.0


@pytest.mark.parametrize("name", link_names())
def test_every_number_of_a_link_has_a_source_beside_it(name: str) -> None:
    text = (resources.files("paceline.catalog") / "links" / f"{name}.toml").read_text(encoding="utf-8")
    bare = [line for line in text.splitlines() if not line.startswith("#") and line and "#" not in line]
    assert text.startswith("# ")
    assert not bare
    assert Medium.load(name).gbps > 0


@pytest.mark.parametrize(
    ("link", "gpu"),
    [
        ("nvlink-a100", "a100-80gb"),
        ("nvlink-h100", "h100-sxm"),
        ("nvlink-h800", "h800"),
        ("nvlink-h200", "h200"),
        ("nvlink-b200", "b200"),
        ("nvlink-h20", "h20"),
        ("nvlink-gb200", "gb200"),
    ],
)
def test_nvlinks_are_those_of_the_gpus(link: str, gpu: str) -> None:
    assert Medium.load(link).gbps * 1e9 / 8 == Gpu.load(gpu).link_bytes_per_s


def test_a_link_of_infinity_fabric_is_between_two_gpus() -> None:
    gpu = Gpu.load("mi300x")
    assert Medium.load("infinity-fabric-mi300x").gbps * 1e9 / 8 == gpu.link_among(2) == 64e9
    assert gpu.link_among(8) == gpu.link_bytes_per_s == 7 * 64e9
    assert Gpu.load("h100-sxm").link_among(2) == 450e9


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: Links(), "Links must have one of gbps and port, was gbps=None, port=None"),
        (lambda: Links(gbps=1, port="ethernet-25"), "must have one of gbps and port, was gbps=1, port='ethe"),
        (
            lambda: Links(port="ethernet-25", latency_s=1.0),
            "latency_s of Links must be that of the port, .* 1.0",
        ),
        (lambda: Links(port="ethernet-24"), "there is no link 'ethernet-24'; close to it: ethernet-"),
        (lambda: Links(port=25), "port of Links must be a Medium or the name of a link, was 25"),
        (lambda: Links(gbps=1, uplink=2), "uplink of Links must be a Medium or the name of a link, was 2"),
        (lambda: Links(gbps=1, nodes=[0, 1]), r"nodes of Links must be lists of .* was \[0, 1\]"),
        (lambda: Links(gbps=1, nodes=[[0], [0]]), "instance of nodes of Links must be named once, 0 was"),
        (lambda: Links(gbps=1, nodes=[[]]), "a node of Links must have at least one instance, had none"),
        (lambda: Links(gbps=1, nodes=[[0]], per_node=1), "must have one of nodes and per_node, had both"),
        (lambda: Links(gbps=1, per_node=0), "per_node of Links must be a whole number of at least 1, was 0"),
        (lambda: Links(gbps=1, ports=[3]), r"ports of Links must be a list of Port, was \[3\]"),
        (lambda: Links(gbps=1, pairs=2 * NODES.pairs), r"pairs of Links must be named once, \(0, 1\) was"),
        (lambda: Port(instance=0), "a Port must have an outer or an inner medium, had none"),
        (lambda: Pair(source=1, target=1, medium=SECOND), "must be two instances, were both 1"),
        (lambda: Medium(gbps=0), "gbps of a Medium must be a finite number above 0, was 0"),
        (
            lambda: Medium(gbps=1, curve=Curve((1, 2), (2.0, 1.0))),
            "must not fall with the size, fell from 2.0 to 1.0 at 2 bytes",
        ),
    ],
)
def test_links_that_make_no_sense_are_refused(make: Any, rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        make()


@pytest.mark.parametrize(
    ("links", "rule"),
    [
        (NODES, "must name instances of the cluster, 0 to 1, was 3"),
        (Links(gbps=1, nodes=[[1]]), r"nodes of Links must have each instance of the cluster, lacked \[0\]"),
    ],
)
def test_links_must_fit_the_cluster(links: Links, rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        Cluster(2 * [INSTANCE], links)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("gbps = 1\nports = 3", "ports of links of a cluster must be an array of tables, was 3"),
        ("gbps = 1\nspeed = 3", "links of a cluster has no field 'speed'"),
        ("gbps = 1\n[links.inner]\nrate = 1", "inner of links of a cluster has no field 'rate'"),
        ("[[links.pairs]]\nsource = 1", "a table of pairs of links of a cluster lacks target, medium"),
    ],
)
def test_toml_of_links_that_makes_no_sense_is_refused(text: str, rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        Cluster.from_toml(
            f"[links]\n{text}\n[[instances]]\nnum_blocks = 9\ncost = {{kind = 'affine', step_s = 1}}"
        )


def test_a_link_slower_than_a_byte_a_second_takes_the_time_that_it_says() -> None:
    # A billionth of a gigabit a second is an eighth of a byte: ten bytes take 80 s.
    links = Links(gbps=1e-9)
    one = Instance(cost=Affine(step_s=0.01), num_blocks=101, kv_bytes=1)
    policy = Policy(name="x", on_arrival=pick(min=inst.index), on_prefilled=pick(max=inst.index))
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[10], output_tokens=[3])
    result = replay(trace, Cluster([one, one], links=links), policy)
    assert result.requests["transfer"][0] == 80.0
    assert links.seconds(0, 1, kv_bytes=10) == 80.0


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ({"gbps": 1e300}, r"gbps of Links must be 1e-09 to 1e\+09 gigabits a second, was 1e\+300"),
        ({"gbps": 1e-10}, r"gbps of Links must be 1e-09 to 1e\+09 gigabits a second, was 1e-10"),
        ({"gbps": 1.0, "latency_s": 2e7}, r"latency_s of Links must be at most 1000000 s, was 20000000\.0"),
    ],
)
def test_a_speed_that_the_engine_cannot_compute_with_is_refused(
    figures: dict[str, float], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Links(**figures)


def test_the_peak_of_blocks_counts_those_of_accepted_hand_overs() -> None:
    # The second instance reserves 11 blocks for 40 + 1 tokens, 4 a block, and runs no step.
    policy = Policy(
        name="x",
        on_arrival=pick(min=inst.index),
        decode_on_arrival=pick(max=inst.index),
        handover=Handover(overlap="layers"),
    )
    one = Instance(cost=Affine(step_s=0.01), num_blocks=30, block_tokens=4, kv_bytes=1000)
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[40], output_tokens=[1])
    result = replay(trace, Cluster([one, one], links=Links(gbps=1e-4)), policy, sample=0.001)
    seen = result.timeline.group_by("instance", maintain_order=True).agg(pl.col("kv_used_blocks").max())
    assert seen["kv_used_blocks"].to_list() == [10, 11]
    assert [each.peak_blocks for each in result.stats.instances] == [10, 11]


def test_blocks_that_requests_share_are_sent_once() -> None:
    # Both prompts are the same 40 tokens, 10 blocks: the second request finds 9 of them in the cache.
    policy = Policy(
        name="x",
        scheduler=Scheduler(prefix_cache=PrefixCache(), max_num_batched_tokens=40),
        on_arrival=pick(min=inst.index),
        on_prefilled=pick(max=inst.index),
    )
    shared = {"prefix": [[1] * 10] * 2, "prefix_block_tokens": 4}
    trace = Trace.from_columns(arrival=[0.0] * 2, prompt_tokens=[40] * 2, output_tokens=[5] * 2, **shared)
    one = Instance(cost=Affine(step_s=0.01), num_blocks=101, block_tokens=4, kv_bytes=1000)
    result = replay(trace, Cluster([one, one], links=Links(gbps=1e-4)), policy, sample=0.01, until=0.1)
    source = result.timeline.filter(pl.col("instance") == 0)
    assert source["kv_sending_blocks"].max() == 11
    assert bool((source["kv_sending_blocks"] <= source["kv_used_blocks"]).all())
