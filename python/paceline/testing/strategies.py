"""Hypothesis strategies: small traces, clusters and policies with many events.

Sizes are chosen so that queues, preemptions, prompts cut into chunks, caches of a
few blocks and arrivals at the end of a step are common. Times are whole
milliseconds, so that moments coincide.

Needs hypothesis, which Paceline itself does not: ``pip install 'paceline[testing]'``.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any, Literal

from paceline import policies as shelf
from paceline.cost import Affine
from paceline.deployment import Cluster, Instance
from paceline.policies import PascalReading
from paceline.policy import Policy, Routing
from paceline.policy.stages import Groups, Recompute, Swap
from paceline.trace import Trace

try:
    from hypothesis import strategies as st
except ImportError as error:  # pragma: no cover - tests run with it
    raise ImportError(
        "paceline.testing.strategies needs hypothesis, which is not installed: "
        "pip install 'paceline[testing]'"
    ) from error

__all__ = ["LONGEST", "RANKED", "clusters", "instances", "policies", "ranked", "traces"]

LONGEST = 64
"""Tokens of the longest prompt and output together, by default."""

_PREFIX_BLOCK_TOKENS = 4
_BLOCK_TOKENS = (1, 2, 4, 8, 16)  # each goes with the block size of the prefixes
_ROUTING: tuple[Routing, ...] = ("round_robin", "fewest_requests", "fewest_tokens")


@st.composite
def traces(
    draw: st.DrawFn,
    *,
    min_requests: int = 1,
    max_requests: int = 16,
    max_prompt_tokens: int = 32,
    max_output_tokens: int = 32,
    apart: bool = False,
) -> Trace:
    """Draw a trace, with a priority, a score and a shared prefix in each row.

    Parameters
    ----------
    min_requests, max_requests
        The number of requests.
    max_prompt_tokens, max_output_tokens
        The longest lengths.
    apart
        Whether no two requests arrive at the same moment.

    Returns
    -------
    SearchStrategy[Trace]
        Traces with arrivals at whole milliseconds, many of them equal.

    Examples
    --------
    >>> from hypothesis import given
    >>> @given(traces(max_requests=3))
    ... def few(trace):
    ...     assert 1 <= len(trace) <= 3
    >>> few()
    """
    # Most gaps are shorter than a step, so that requests queue.
    gaps = st.one_of(st.just(0), st.integers(0, 12), st.integers(0, 12), st.integers(0, 300))
    shapes = draw(
        st.lists(
            st.tuples(
                gaps,
                st.integers(1, max_prompt_tokens),
                st.one_of(st.just(1), st.integers(1, max_output_tokens), st.integers(1, max_output_tokens)),
                st.integers(0, 2),
            ),
            min_size=draw(st.sampled_from([min_requests, max(min_requests, 3 * max_requests // 4)])),
            max_size=max_requests,
        )
    )
    # Few contents, so that prompts share some blocks and differ soon.
    families = draw(st.lists(st.lists(st.integers(0, 2), max_size=8), min_size=1, max_size=3))
    prefixes = [
        draw(st.sampled_from(families))[: prompt // _PREFIX_BLOCK_TOKENS] for _, prompt, _, _ in shapes
    ]
    return Trace.from_columns(
        arrival=[at / 1000 for at in accumulate(gap + apart for gap, *_ in shapes)],
        prompt_tokens=[prompt for _, prompt, _, _ in shapes],
        output_tokens=[output for _, _, output, _ in shapes],
        priority=[rank for *_, rank in shapes],
        score=[float(rank) for *_, rank in shapes],
        prefix=prefixes,
        prefix_block_tokens=_PREFIX_BLOCK_TOKENS,
        name="drawn",
    )


@st.composite
def instances(draw: st.DrawFn, *, longest_tokens: int = LONGEST) -> Instance:
    """Draw an instance with an affine cost and few KV blocks.

    Parameters
    ----------
    longest_tokens
        Prompt and output of the longest sequence. Most instances hold one or two
        such sequences; some hold less than one, so that it is rejected, and some
        hold all.

    Returns
    -------
    SearchStrategy[Instance]
        Instances with steps of whole milliseconds.

    Examples
    --------
    >>> from hypothesis import given
    >>> @given(instances())
    ... def small(instance):
    ...     assert instance.usable_blocks * instance.block_tokens <= 10 * LONGEST
    >>> small()
    """
    block_tokens = draw(st.sampled_from(_BLOCK_TOKENS))
    capacity = draw(
        st.one_of(
            st.integers(longest_tokens, 2 * longest_tokens),
            st.integers(longest_tokens, longest_tokens + 16),
            st.integers(1, longest_tokens),
            st.just(10 * longest_tokens),
        )
    )
    cost = Affine(
        step_s=draw(st.integers(1, 20)) / 1000,
        token_s=draw(st.integers(0, 3)) / 1000,
        kv_token_s=draw(st.sampled_from([0, 0, 1, 2])) / 1000,
    )
    return Instance(
        block_tokens=block_tokens,
        num_blocks=1 + max(1, capacity // block_tokens),  # one is vLLM's null block
        max_model_len=None,
        cost=cost,
    )


@st.composite
def clusters(draw: st.DrawFn, *, max_instances: int = 3, longest_tokens: int = LONGEST) -> Cluster:
    """Draw a cluster: one instance, or several equal or different ones.

    Parameters
    ----------
    max_instances
        The most instances.
    longest_tokens
        As for `instances`.

    Returns
    -------
    SearchStrategy[Cluster]
        Clusters, most of them with one instance.

    Examples
    --------
    >>> from hypothesis import given
    >>> @given(clusters(max_instances=2))
    ... def pair(cluster):
    ...     assert len(cluster.instances) in (1, 2)
    >>> pair()
    """
    drawn = instances(longest_tokens=longest_tokens)
    count = draw(st.one_of(st.just(1), st.integers(1, max_instances)))
    first = draw(drawn)
    alike = count == 1 or draw(st.booleans())
    return Cluster([first if alike or index == 0 else draw(drawn) for index in range(count)])


@st.composite
def policies(draw: st.DrawFn, *, longest_tokens: int = LONGEST) -> Policy:
    """Draw one of the policies of `paceline.policies`, with limits that bind.

    Parameters
    ----------
    longest_tokens
        Prompt and output of the longest sequence, which a step must hold if prompts
        are not cut.

    Returns
    -------
    SearchStrategy[Policy]
        Policies with budgets from a single token up, few seats, and all values of
        their options.

    Examples
    --------
    >>> from hypothesis import given
    >>> @given(policies())
    ... def routed(policy):
    ...     assert policy.scheduler.max_num_seqs
    >>> routed()
    """
    limits: dict[str, Any] = {
        "max_num_batched_tokens": draw(st.sampled_from([1, 2, 3, 8, 17, 32, 64, 64])),
        "max_num_seqs": draw(st.sampled_from([1, 2, 4, 16, 16])),
        "routing": draw(st.sampled_from(_ROUTING)),
    }
    whole = {**limits, "max_num_batched_tokens": longest_tokens + draw(st.integers(0, longest_tokens))}
    kinds = ["vllm", "vllm", "vllm-v0", "layered", "chunked", "whole", "sarathi", "orca", "static", "sglang"]
    kind = draw(st.sampled_from([*kinds, *kinds, *RANKED]))
    if kind in RANKED:
        return draw(ranked(kind, limits))
    if kind == "vllm":
        return shelf.vllm(
            version=draw(st.sampled_from(["0.33", "0.11"])),
            policy=draw(st.sampled_from(["fcfs", "fcfs", "priority"])),
            prefix_caching=draw(st.booleans()),
            long_prefill_token_threshold=draw(st.sampled_from([0, 0, 1, 3, 10])),
            reserve_full_prompt=draw(st.sampled_from([None, True, False])),
            watermark=draw(st.sampled_from([0.0, 0.0, 0.05, 0.3])),
            **limits,
        )
    if kind == "vllm-v0":
        chunked = draw(st.booleans())
        return shelf.vllm_v0(
            chunked_prefill=chunked, preemption=draw(_preemptions()), **(limits if chunked else whole)
        )
    if kind == "layered":
        # The authors' table divides the layers only above 512 tokens.
        layers = draw(st.sampled_from([24, 25, 48]))
        rules = st.builds(Groups, tokens_per_group=st.integers(1, 16), most=st.integers(1, layers))
        groups = draw(st.one_of(rules, rules, st.sampled_from([4, 12, 16, 24])))
        return shelf.layered_prefill(layers=layers, groups=groups, **limits)
    if kind in ("chunked", "whole"):
        return shelf.authors_chunked(**limits) if kind == "chunked" else shelf.authors_orca(**whole)
    return _of_other_engines(
        draw, kind, limits["max_num_batched_tokens"], limits["max_num_seqs"], limits["routing"]
    )


@st.composite
def ranked(draw: st.DrawFn, kind: str, limits: dict[str, Any]) -> Policy:
    """Draw one of the policies that rank requests, with quanta and thresholds that bind.

    Parameters
    ----------
    kind
        Its name in `paceline.policies`.
    limits
        Its ``max_num_batched_tokens``, ``max_num_seqs`` and ``routing``.

    Returns
    -------
    SearchStrategy[Policy]
        Policies of that name.
    """
    settings: dict[str, st.SearchStrategy[Any]] = {
        "andes": {
            "pressure": st.sampled_from([0.0, 0.5, 0.9]),
            "most_displaced": st.sampled_from([None, 1, 2]),
        },
        "fastserve": {
            "base_s": st.sampled_from([0.005, 0.02]),
            "starved_s": st.sampled_from([0.05, 3.0]),
            "starved_every": st.sampled_from([3, 1000]),
            "free_blocks": st.sampled_from([0, 1, 2]),
        },
        "las": {"grain_s": st.sampled_from([0.01, 0.1])},
        "pars": {"patience": st.sampled_from([0.1, 120.0]), "keep_boost": st.booleans()},
        "pascal": {
            "quantum": st.sampled_from([1, 3, 10]),
            "demote_above": st.sampled_from([5, 20, 5000]),
            "migration": st.sampled_from(["adaptive", "always", "never"]),
            "tpot": st.sampled_from([0.005, 0.02, 0.1]),
            "admission": st.sampled_from(["displace", "displace", "wait"]),
            "reading": st.builds(
                PascalReading,
                turn=st.sampled_from(["joined", "arrival"]),
                recount=st.booleans(),
                prefill_as=st.sampled_from(["reasoning", "first"]),
                demote_by=st.sampled_from(["kv_tokens", "generated_tokens"]),
                on_pace=st.sampled_from(["every_buffer", "mean_interval"]),
                footprint=st.sampled_from(["gpu_and_cpu", "gpu"]),
                room=st.sampled_from([None, 0, 3, 40]),
            ),
        },
        "round_robin_quanta": {"quantum": st.sampled_from([1, 3, 10])},
        "sjf": {"patience": st.sampled_from([0.1, 120.0]), "keep_boost": st.booleans()},
        "srpt": {"grain": st.sampled_from([1, 4])},
        "vllm_ltr": {"starved_steps": st.sampled_from([2, 20]), "hold": st.integers(0, 3)},
    }[kind]  # type: ignore[assignment]  # a strategy for each parameter
    given = {name: draw(values) for name, values in settings.items()}
    if kind in ("andes", "fastserve", "las", "pascal", "vllm_ltr"):
        # Ranks that change without a token: with recompute, two requests may displace each other forever.
        given["preemption"] = Swap(cpu_blocks=10**6, out_s=0.001, in_s=0.001)
    elif kind not in ("pars", "sjf"):
        given["preemption"] = draw(_preemptions())
    if kind == "pascal":
        limits = {name: value for name, value in limits.items() if name != "routing"}
    make: Callable[..., Policy] = getattr(shelf, kind)
    return make(**limits, **given)


RANKED = ("andes", "fastserve", "las", "pars", "pascal", "round_robin_quanta", "sjf", "srpt", "vllm_ltr")
"""Policies that rank requests, by their names in `paceline.policies`."""


def _of_other_engines(draw: st.DrawFn, kind: str, tokens: int, seqs: int, routing: Routing) -> Policy:
    if kind == "sarathi":
        return shelf.sarathi(
            chunk_size=tokens,
            max_num_seqs=min(seqs, tokens),
            watermark=draw(st.sampled_from([0.0, 0.01, 0.2])),
            routing=routing,
        )
    if kind == "orca":
        return shelf.orca(max_num_seqs=seqs, routing=routing)
    if kind == "static":
        wait_s = draw(st.sampled_from([0.0, 0.001, 0.02, 0.3]))
        return shelf.static(size=seqs, wait_s=wait_s, routing=routing)
    orders: list[Literal["fcfs", "lof", "lpm"]] = ["fcfs", "lof", "lpm"]
    order = draw(st.sampled_from(orders))
    return shelf.sglang(
        schedule_policy=order,
        # Prompts are charged in whole blocks, of which one must fit into a step.
        chunked_prefill_size=max(tokens, *_BLOCK_TOKENS),
        max_running_requests=seqs,
        prefix_caching=order == "lpm" or draw(st.booleans()),
        routing=routing,
    )


def _preemptions() -> st.SearchStrategy[Recompute | Swap]:
    pools = st.sampled_from([0, 1, 5, 1000])
    copies = st.sampled_from([0.0, 0.001, 0.003])
    swaps = st.builds(Swap, cpu_blocks=pools, out_s=copies, in_s=copies, overlapped=st.booleans())
    return st.one_of(st.just(Recompute()), swaps)
