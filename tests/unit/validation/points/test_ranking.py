"""The order of configurations: Kendall's tau over pairs, counted by hand."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from paceline.validation.points import Point, Predicted, Server
from paceline.validation.points.ranking import ranked_pairs, ranking
from paceline.validation.points.workloads import Closed
from paceline.validation.resolving import find_model

SERVER = Server(engine="vllm", version="0.19.0", model=find_model("llama-3.1-8b"), gpu="h100-sxm")


def point(
    gpus: int, measured: Mapping[str, float], predicted: Mapping[str, float], *, tokens: int = 101
) -> Predicted:
    server = Server(engine="vllm", version="0.19.0", model=SERVER.model, gpu="h100-sxm", tensor_parallel=gpus)
    load = Closed(prompt_tokens=100, output_tokens=tokens, concurrency=10, requests=100)
    one = Point(
        id=f"{gpus} {measured}",
        server=server,
        precision="bf16",
        workload=load,
        measured=measured,
        in_flight=10.0,
    )
    return Predicted(one, {"roofline": predicted})


def times(ttft: float, tpot: float) -> dict[str, float]:
    return {"ttft": ttft, "tpot": tpot}


def test_pairs_in_the_measured_order_count_for_and_the_others_against() -> None:
    """E2E latency is 0.1 s and 100 gaps: 1.1, 0.6 and 0.35 s on 1, 2 and 4 GPUs.

    So 1,010 tokens a round are 918, 842 and 721 tokens a second and GPU. The prediction of the last is
    0.2 s, or 1,263 tokens: two of three pairs are against the measured order, and tau is (1 - 2) / 3.
    """
    same = times(0.1, 0.01), times(0.1, 0.005)
    found = ranking(
        [
            point(1, same[0], same[0]),
            point(2, same[1], same[1]),
            point(4, times(0.1, 0.0025), times(0.1, 0.001)),
        ]
    )
    assert found["overall"] == {"configurations": 3, "pairs": 3, "tau": pytest.approx(-1 / 3, abs=1e-4)}
    assert found["groups"]["llama-3.1-8b on h100-sxm"]["pairs"] == 3


def test_a_load_beyond_the_objective_has_no_value() -> None:
    """On one GPU tokens come every 60 ms as measured, and every 40 ms as predicted, which alone counts."""
    late, early = times(0.1, 0.06), times(0.1, 0.04)
    found = ranking([point(1, late, early), point(8, times(0.1, 0.02), times(0.1, 0.02))])
    # Measured 0 against 60 tokens a second and GPU; predicted 246 against 60.
    assert found["overall"]["tau"] == -1.0


def test_configurations_are_compared_on_the_same_lengths_alone() -> None:
    one, other = times(0.1, 0.01), times(0.1, 0.02)
    found = ranking([point(1, one, one), point(2, other, other, tokens=201)])
    assert found["overall"] == {"configurations": 0, "pairs": 0, "tau": None}
    assert found["groups"] == {}


def test_a_pair_names_its_configurations_and_their_order() -> None:
    """As above, 918 and 842 tokens a second and GPU; predicted 1,010 / 1.1 and 1,010 / 0.35 / 2."""
    one, other, fast = times(0.1, 0.01), times(0.1, 0.005), times(0.1, 0.0025)
    [pair] = ranked_pairs([point(1, one, one), point(2, other, fast)])
    assert (pair.group, pair.lengths) == ("llama-3.1-8b on h100-sxm", (100, 101, "bf16"))
    assert pair.configurations == (("vllm", "0.19.0", "TP 1"), ("vllm", "0.19.0", "TP 2"))
    assert pair.measured == pytest.approx((918.2, 841.7), abs=0.1)
    assert pair.predicted == pytest.approx((918.2, 1442.9), abs=0.1)
    assert (pair.order, pair.agrees) == (-1, False)


def test_a_pair_that_is_predicted_as_equal_counts_as_none() -> None:
    one, other = times(0.1, 0.01), times(0.1, 0.005)
    late = times(3.0, 0.005)
    [pair] = ranked_pairs([point(1, one, late), point(2, other, late)])
    assert (pair.order, pair.agrees) == (0, False)
