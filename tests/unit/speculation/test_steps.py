"""Speculation on an instance: what a step yields, its cost, and what is refused."""

from __future__ import annotations

import pytest

from paceline import (
    AcceptanceLength,
    Affine,
    ByPosition,
    Cluster,
    Draft,
    Instance,
    Listed,
    Speculation,
    Trace,
    replay,
)
from paceline.errors import ConfigError


def instance(speculation: Speculation | None, **further: object) -> Instance:
    return Instance(
        cost=Affine(step_s=0.1),
        num_blocks=1001,
        speculation=speculation,
        **further,  # type: ignore[arg-type]
    )


def finish(speculation: Speculation | None, output: int) -> float:
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[10], output_tokens=[output])
    return float(replay(trace, Cluster([instance(speculation)])).requests["finish"].item())


@pytest.mark.parametrize(
    ("acceptance", "steps"),
    [
        # The prefill yields one token, and 12 are left: 2, 3, 2, 3 and 2; 4 each; 1 each.
        (AcceptanceLength(2.5), 5),
        (Listed((3,)), 3),
        (Listed((0,)), 12),
        (ByPosition((1.0, 1.0, 1.0)), 3),
        (ByPosition((0.0, 0.0, 0.0)), 12),
    ],
)
def test_a_request_takes_as_many_steps_as_its_drafts_leave(acceptance: AcceptanceLength, steps: int) -> None:
    drafted = Speculation(tokens=3, acceptance=acceptance, method="ngram")
    assert finish(drafted, 13) == pytest.approx(0.1 * (1 + steps))
    assert finish(None, 13) == pytest.approx(0.1 * 13)


def test_a_drafter_takes_a_pass_for_each_draft() -> None:
    """Four steps, each with two passes of 10 ms: the prefill's, and those that yield 3, 3 and 1 tokens."""
    drafted = Speculation(tokens=2, acceptance=Listed((2,)), draft=Draft(cost=Affine(step_s=0.01)))
    assert finish(drafted, 8) == pytest.approx(4 * (0.1 + 2 * 0.01))


@pytest.mark.parametrize(
    "speculation",
    [
        Speculation(tokens=3, acceptance=AcceptanceLength(2.4)),
        Speculation(tokens=4, acceptance=ByPosition((0.8, 0.5), seed=3), method="draft_model"),
        Speculation(
            tokens=5,
            acceptance=Listed((1, 0, 5), stride=7),
            method="ngram",
            proposals=Listed((5, 0), stride=5),
        ),
        Speculation(tokens=5, acceptance=AcceptanceLength(3.0), tokens_by_batch=((1, 5), (8, 2)), pads=False),
        Speculation(tokens=1, acceptance=AcceptanceLength(1.8), draft=Draft(layers=2)),
    ],
)
def test_a_speculation_survives_toml(speculation: Speculation) -> None:
    one = Instance(model="llama-3.1-8b", gpu="h100-sxm", speculation=speculation)
    assert Instance.from_toml(one.to_toml()) == one


def test_weights_and_kv_of_a_head_leave_fewer_blocks() -> None:
    head = Speculation(tokens=1, acceptance=AcceptanceLength(1.8), draft=Draft())
    plain, drafted = (
        Instance(model="llama-3.1-8b", gpu="h100-sxm", speculation=one).to_wire()["blocks"]
        for one in (None, head)
    )
    # A 33rd layer's KV, and the weights of one layer, 0.4 GiB of some 57.
    assert 0.95 < drafted / plain < 32 / 33


def test_misuse_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"must be at most 4 with 3 drafts, was 4\.5"):
        Speculation(tokens=3, acceptance=AcceptanceLength(4.5))
    with pytest.raises(ConfigError, match="rates of a ByPosition must not rise"):
        ByPosition((0.5, 0.6))
    with pytest.raises(ConfigError, match="proposals of a Speculation must be None unless method is ngram"):
        Speculation(tokens=3, acceptance=AcceptanceLength(2.0), proposals=Listed((1,)))
    with pytest.raises(ConfigError, match="draft of a Speculation must be None if method is ngram"):
        Speculation(tokens=3, acceptance=AcceptanceLength(2.0), method="ngram", draft=Draft())
