"""What a speculation says, refuses, and writes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import paceline
from paceline import Affine, Cluster, Instance, Model, Trace, inst
from paceline.errors import ConfigError, PacelineWarning
from paceline.policy.expressions.functions import where
from paceline.policy.expressions.tree import Expr
from paceline.speculation import AcceptanceLength, ByPosition, Draft, Listed, Speculation, golden_length


@pytest.mark.parametrize(("length", "mean"), [(1.0, 1), (2.4, 2.4), (3.0, 3), (1.99, 1.99)])
def test_an_acceptance_length_is_the_mean_of_its_period(length: float, mean: float) -> None:
    yields = AcceptanceLength(length).yields()
    assert sum(yields) / len(yields) == pytest.approx(mean)
    assert max(yields) - min(yields) <= 1


def test_rates_of_all_steps_become_rates_given_the_ones_before() -> None:
    # 0.8 of all steps accept a first draft, 0.6 a second one: three of four of those.
    assert ByPosition((0.8, 0.6, 0.0, 0.0)).chances == pytest.approx((0.8, 0.75, 0.0, 0.0))


FREE = Draft(cost=Affine(step_s=1e-12))
EAGLE: dict[str, Any] = {"tokens": 3, "acceptance": AcceptanceLength(2.5), "draft": FREE}
NGRAM: dict[str, Any] = {**EAGLE, "method": "ngram", "draft": None}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tokens": 0}, "tokens of a Speculation must be"),
        ({"tokens": 1}, r"at most 2 with 1 drafts, was 2\.5"),
        (
            {"acceptance": 2.5},
            r"must be an AcceptanceLength, a ByPosition, a Listed or a FromColumn, was 2\.5",
        ),
        ({"method": "ngram", "draft": Draft()}, "must be None if method is ngram"),
        ({"proposals": Listed((1,))}, "must be None unless method is ngram"),
        ({"tokens_by_batch": ((2, 1),)}, "must begin at 1 request"),
        ({"tokens_by_batch": ((1, 3), (1, 2))}, "rise"),
    ],
)
def test_what_does_not_fit_together_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Speculation(**{**EAGLE, **fields})


@pytest.mark.parametrize("rates", [(0.5, 0.6), (1.5,), ()])
def test_rates_are_probabilities_that_do_not_rise(rates: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="rates of a ByPosition"):
        ByPosition(rates)


@pytest.mark.parametrize(
    ("method", "lookahead", "slots", "hashes"),
    [("eagle", 3, 0, 1), ("mtp", 3, 0, 1), ("draft_model", 3, 1, 0), ("ngram", 0, 0, 0)],
)
def test_a_method_takes_slots_as_in_vllm(method: Any, lookahead: int, slots: int, hashes: int) -> None:
    wire = Speculation(**{**EAGLE, "method": method, "draft": None if method == "ngram" else FREE}).to_wire()
    assert (wire["lookahead"], wire["input_slots"], wire["hash_lookahead"]) == (lookahead, slots, hashes)


@pytest.mark.parametrize(
    "speculation",
    [
        Speculation(**{**EAGLE, "draft": Draft(layers=2, vocab_size=99)}, tokens_by_batch=((1, 3), (9, 1))),
        Speculation(
            tokens=2, acceptance=ByPosition((0.5, 0.25), seed=4), draft=Draft(cost=Affine(step_s=1e-3))
        ),
        Speculation(tokens=5, acceptance=Listed((1, 2)), method="ngram", proposals=Listed((0, 5), stride=3)),
    ],
)
def test_an_instance_with_drafts_is_written_and_read(speculation: Speculation) -> None:
    instance = Instance(model="llama-3.1-8b", gpu="h100-sxm", speculation=speculation)
    assert Instance.from_toml(instance.to_toml()) == instance


def test_a_drafter_takes_memory() -> None:
    plain = Instance(model="llama-3.1-8b", gpu="h100-sxm")
    headed = Instance(
        model="llama-3.1-8b", gpu="h100-sxm", speculation=Speculation(**{**EAGLE, "draft": Draft()})
    )
    # The head has one of 32 layers: 2 * 8 * 128 numbers of two bytes a token, and 218 million weights.
    assert headed.memory().block_bytes - plain.memory().block_bytes == 16 * 2 * 8 * 128 * 2
    layer = (2 * 32 + 2 * 8) * 128 * 4096 + 3 * 14336 * 4096 + 2 * 4096
    assert headed.memory().weight_bytes - plain.memory().weight_bytes == 2 * layer
    assert headed.usable_blocks < plain.usable_blocks


def test_a_head_with_rows_of_its_own_has_an_lm_head_of_its_own() -> None:
    target = Model.load("llama-3.1-8b")
    own, shared = Draft(vocab_size=32_000), Draft()
    # Rows of 4,096 numbers of two bytes; the embedding is the target's.
    assert own.weight_bytes(target) - shared.weight_bytes(target) == 32_000 * 4096 * 2
    assert own.shape(target).vocab_size == 32_000
    tied = replace(target, tied_embeddings=True)
    assert own.weight_bytes(tied) - shared.weight_bytes(tied) == 32_000 * 4096 * 2
    # A pass reads 96,256 rows less: 789 MB, which take 0.235 ms at the peak of 3.35 TB/s.
    step = {name: drafted_step("llama-3.1-8b", draft) for name, draft in (("own", own), ("shared", shared))}
    assert step["shared"] - step["own"] > 3 * 0.000235


def drafted_step(model: str, draft: Draft) -> float:
    speculation = Speculation(**{**EAGLE, "acceptance": AcceptanceLength(1.0), "draft": draft})
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[8], output_tokens=[9])
    instance = Instance(model=model, gpu="h100-sxm", speculation=speculation)
    result = paceline.replay(trace, Cluster([instance]), policy=paceline.policies.vllm())
    return float(result.requests["tpot"][0])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"vocab_size": 0}, "vocab_size of a Draft must be"),
        ({"vocab_size": 32_000, "model": "llama-3.1-8b"}, "must be None beside a model"),
    ],
)
def test_rows_of_an_lm_head_that_do_not_fit_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Draft(**fields)


def replayed(speculation: Speculation | None, outputs: int = 13) -> Any:
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[8], output_tokens=[outputs])
    instance = Instance(cost=Affine(step_s=0.01), num_blocks=100, speculation=speculation)
    return paceline.replay(trace, Cluster([instance]), policy=paceline.policies.vllm())


def test_a_step_yields_as_many_tokens_as_the_length_says() -> None:
    # The prompt's step yields one token; then 2, 3, 2, 3 and the last two of 12 more.
    result = replayed(Speculation(**NGRAM))
    assert result.stats.steps == 1 + 5
    assert result.requests["e2e"][0] == pytest.approx(0.06)
    drafts = result.stats.instances[0].drafts
    assert drafts == {"verifications": 5, "proposed": 15, "computed": 15, "accepted": 7, "trimmed": 0}


@pytest.mark.parametrize(
    ("acceptance", "steps"),
    [
        # Of 13 tokens the prompt's step yields one, and the others 12: four a step, or one.
        (Listed((3,)), 3),
        (Listed((0,)), 12),
        (ByPosition((1.0, 1.0, 1.0)), 3),
        (ByPosition((0.0, 0.0, 0.0)), 12),
    ],
)
def test_what_is_certain_takes_as_many_steps(acceptance: Any, steps: int) -> None:
    result = replayed(Speculation(**{**NGRAM, "acceptance": acceptance}))
    assert result.stats.steps == 1 + steps


def test_drafts_of_a_model_that_take_no_time_are_warned_of() -> None:
    with pytest.warns(PacelineWarning, match=r"drafts of method 'mtp' take no time and no memory without"):
        Speculation(tokens=1, acceptance=AcceptanceLength(1.8), method="mtp")


def test_tokens_of_one_step_have_no_gap() -> None:
    result = replayed(Speculation(tokens=3, acceptance=AcceptanceLength(4), method="ngram"))
    # Three steps of four tokens each: three gaps of 10 ms and nine of none.
    assert result.itl.count == 12
    assert result.itl.quantile_s(0.5) == 0
    assert result.itl.max_ticks == 10**10


def test_a_drafter_takes_time() -> None:
    # Two passes of 1 ms after each of 1 + 12 / 3 steps.
    drafted = Speculation(tokens=2, acceptance=AcceptanceLength(3), draft=Draft(cost=Affine(step_s=1e-3)))
    assert replayed(drafted).requests["e2e"][0] == pytest.approx(5 * 0.012)


def test_a_draft_is_priced_by_a_model_or_a_line() -> None:
    instance = Instance(
        cost=Affine(step_s=0.01), num_blocks=100, speculation=Speculation(**{**EAGLE, "draft": Draft()})
    )
    with pytest.raises(ConfigError, match="must have an Affine as its cost"):
        instance.to_wire()


def test_a_head_has_the_shape_of_the_target() -> None:
    target = Model.load("llama-3.1-8b")
    assert Draft(layers=2).kv_bytes_per_token(target) * 16 == target.kv_bytes_per_token(1, "auto")


def test_a_measured_length_has_a_table() -> None:
    assert golden_length("minimax-m3-eagle3-thinking", 8).length == 3.74
    with pytest.raises(ConfigError, match=r"tokens of glm-5\.2-mtp-thinking must be one of 3"):
        golden_length("glm-5.2-mtp-thinking", 4)


@pytest.mark.parametrize("field", [inst.outstanding_tokens, inst.kv_tokens])
@pytest.mark.parametrize("tokens", [400, 461, 700])
def test_a_budget_that_falls_as_drafts_are_accepted_falls_in_the_same_step(field: Expr, tokens: int) -> None:
    # Four requests run, two wait for seats. From so many tokens on, the drafts of all four exceed the budget.
    trace = Trace.from_columns(arrival=[0.0] * 6, prompt_tokens=[20] * 6, output_tokens=[200] * 6)
    one = Instance(
        cost=Affine(step_s=0.01, token_s=1e-5, kv_token_s=1e-7),
        num_blocks=1000,
        max_model_len=1000,
        speculation=Speculation(tokens=5, acceptance=AcceptanceLength(3.0), method="ngram"),
    )
    policy = paceline.policies.vllm(max_num_seqs=4, max_num_batched_tokens=where(field > tokens, 8, 512))
    leapt, stepped = (
        paceline.replay(trace, Cluster([one]), policy, leap=leap).requests for leap in (True, False)
    )
    assert leapt.equals(stepped)


@pytest.mark.parametrize("leap", [True, False])
def test_the_last_token_of_an_answer_is_not_cached_where_a_draft_follows_it(*, leap: bool) -> None:
    # Blocks of 4 tokens. The answer of 3 ends in a step that yields 3 tokens after the first: with the one
    # past the end, the KV of all 8 tokens is there. vLLM 0.33.0 counts all tokens but the last as computed
    # (`_update_request_with_output` in vllm/v1/core/sched/scheduler.py), so the second block is not cached,
    # as without drafts.
    trace = Trace.from_columns(
        arrival=[0.0, 10.0], prompt_tokens=[5, 12], output_tokens=[3, 1], session=[0, 0]
    )
    ngram = Speculation(tokens=2, acceptance=AcceptanceLength(3), method="ngram")
    for speculation in (None, ngram):
        one = Instance(model="llama-3.1-8b", gpu="h100-sxm", block_tokens=4, speculation=speculation)
        result = paceline.replay(
            trace, Cluster([one]), paceline.policies.vllm(prefix_caching=True), leap=leap
        )
        assert result.requests["cached_tokens"].to_list() == [0, 4]
