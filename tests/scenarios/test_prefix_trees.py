"""Prefixes in a radix tree: hits, shared blocks and evictions, worked by hand."""

from __future__ import annotations

import pytest

import paceline
from paceline import Affine, Cluster, Policy, Trace, policies
from paceline.errors import PolicyError
from paceline.policy import OutputReserve, PrefixCache, RadixTree, Scheduler, migrate, pick
from paceline.policy.stages import Admit, Decodes, Prefills

BOTH = pytest.mark.parametrize("leap", [True, False])
CACHES = pytest.mark.parametrize("cache", [PrefixCache(tree=RadixTree()), PrefixCache()])


def hits(
    prompts: list[tuple[float, list[int]]],
    *,
    blocks: int,
    cache: PrefixCache,
    leap: bool,
    output: int = 2,
    page: int = 1,
) -> list[int]:
    """Return the cached tokens of each request; a prompt is the ids of its blocks, of `page` tokens each."""
    trace = Trace.from_columns(
        arrival=[at for at, _ in prompts],
        prompt_tokens=[len(ids) * page for _, ids in prompts],
        output_tokens=[output] * len(prompts),
        prefix=[ids for _, ids in prompts],
        prefix_block_tokens=page,
    )
    instance = paceline.Instance(block_tokens=page, num_blocks=blocks + 1, cost=Affine(step_s=1.0))
    policy = policies.sglang(prefix_caching=cache)
    result = paceline.replay(trace, Cluster([instance]), policy, leap=leap)
    return result.requests["cached_tokens"].to_list()


def prompt(first: int, tokens: int = 8) -> list[int]:
    return list(range(first, first + tokens))


@BOTH
def test_a_leaf_is_evicted_whole(leap: bool) -> None:
    """Each of the first two leaves 8 blocks of its prompt and 1 of its output, of 21: 3 are free.

    The third takes 6. The output of the first is evicted, and then its prompt, of which 2 blocks would do. A
    prompt that comes again computes its last token.
    """
    first, second, third = prompt(100), prompt(200), prompt(300, 6)
    several = [(0.0, first), (10.0, second), (20.0, third), (30.0, second), (40.0, first)]
    tree = hits(several, blocks=21, cache=PrefixCache(tree=RadixTree()), leap=leap)
    assert tree == [0, 0, 0, 7, 0]
    # Block by block, the first prompt loses its last blocks only.
    assert hits(several, blocks=21, cache=PrefixCache(), leap=leap)[4] > 0


@BOTH
def test_an_output_is_evicted_before_its_prompt(leap: bool) -> None:
    """The first leaves 8 blocks of its prompt and 3 of its output, of 14. The second takes 6 in all.

    So the output of the first is evicted, and its prompt stays.
    """
    several = [(0.0, prompt(100)), (20.0, prompt(200, 3)), (40.0, prompt(100))]
    tree = PrefixCache(tree=RadixTree())
    assert hits(several, blocks=14, cache=tree, leap=leap, output=4) == [0, 0, 7]


@pytest.mark.parametrize(("blocks", "found"), [(5, 0), (6, 4)])
@BOTH
def test_a_prompt_evicts_for_a_block_more_than_it_takes(blocks: int, found: int, leap: bool) -> None:
    """Two prompts leave two blocks of 4 tokens each. The third takes one, and evicts unless two hold nothing.

    Of 5 blocks one holds nothing, and the first prompt is evicted. It has one block but for its last token.
    """
    several = [(0.0, prompt(100, 2)), (10.0, prompt(200, 2)), (20.0, prompt(300, 1)), (30.0, prompt(100, 2))]
    tree = PrefixCache(tree=RadixTree())
    assert hits(several, blocks=blocks, cache=tree, leap=leap, output=1, page=4) == [0, 0, 0, found]


@pytest.mark.parametrize(
    ("prompts", "ttft"),
    [([16, 12], [1, 1]), ([20, 12], [1, 2]), ([10, 20], [1, 2]), ([10, 16], [1, 1]), ([33, 16], [2, 2])],
)
@BOTH
def test_prompts_are_charged_in_whole_blocks(prompts: list[int], ttft: list[int], leap: bool) -> None:
    """Steps of 32 tokens, blocks of 16. 20 tokens take two blocks of the budget, and leave none.

    10 tokens leave one: of 20 others 16 are computed beside them, though 22 would be left. The last token
    of 33 takes a whole block.
    """
    trace = Trace.from_columns(arrival=[0.0, 0.0], prompt_tokens=prompts, output_tokens=[1, 1])
    instance = paceline.Instance(block_tokens=16, num_blocks=100, cost=Affine(step_s=1.0))
    policy = policies.sglang(chunked_prefill_size=32)
    result = paceline.replay(trace, Cluster([instance]), policy, leap=leap)
    assert (result.requests["first_token"] - result.requests["arrival"]).to_list() == ttft


@CACHES
@BOTH
def test_a_prompt_is_found_once_its_step_has_ended(leap: bool, cache: PrefixCache) -> None:
    """Two equal prompts that are admitted together are both computed in a tree; blocks are found at once."""
    both = [(0.0, prompt(100)), (0.0, prompt(100)), (10.0, prompt(100))]
    expected = [0, 0, 7] if cache.tree else [0, 7, 7]
    assert hits(both, blocks=60, cache=cache, leap=leap) == expected


@BOTH
def test_equal_blocks_are_kept_once(leap: bool) -> None:
    """Two equal prompts of 8 tokens leave 10 blocks of 24, with a token of the output of each.

    So a prompt of 9 and its output evict nothing, and the fourth request finds what the first had.
    """
    several = [(0.0, prompt(100)), (0.0, prompt(100)), (10.0, prompt(200, 9)), (20.0, prompt(100))]
    assert hits(several, blocks=24, cache=PrefixCache(tree=RadixTree()), leap=leap) == [0, 0, 0, 7]


def scheduler(**fields: object) -> Scheduler:
    """Return a scheduler like SGLang's, with other fields."""
    plain = {
        "stages": (Prefills(), Admit(), Decodes(charged=False, over_prefills=False)),
        "exclusive_prefill": True,
        "allocation": "chunk_if_all_fits",
        "output_reserve": OutputReserve(),
        "prefix_cache": PrefixCache(tree=RadixTree()),
    }
    return Scheduler(**plain | fields)  # type: ignore[arg-type]


def test_what_is_not_modelled_beside_a_tree_is_refused() -> None:
    with pytest.raises(
        PolicyError, match="tree of prefix_cache must be None unless there is an output_reserve"
    ):
        scheduler(output_reserve=None)
    with pytest.raises(PolicyError, match="evict of a PrefixCache must be None beside a tree"):
        PrefixCache(tree=RadixTree(), evict=1)
    with pytest.raises(PolicyError, match=r"passes of a RadixTree must be 0 to .*, was -1"):
        RadixTree(passes=-1)
    any_ = pick(min=0)
    with pytest.raises(
        PolicyError, match="tree of prefix_cache must be None where requests migrate without a handover"
    ):
        Policy(
            name="moves",
            scheduler=scheduler(),
            every={1.0: [migrate(source=any_, target=any_, choose=any_)]},
            handover=None,
        )
