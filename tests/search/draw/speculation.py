"""Speculative decoding: drafts, the slots that they take, and which are accepted."""

from __future__ import annotations

from search.draw import stages
from search.draw.expressions import Wire
from search.draw.source import Source

CERTAIN = 2**32
MOST = 5


def speculation(source: Source, scheduler: Wire, *, chance: float = 0.25) -> Wire:
    """Draw how an instance drafts tokens; mostly it drafts none, and none where a scheduler selects."""
    selects = any(stage["kind"] == "select" for stage in scheduler["stages"])
    if selects or not source.chance(chance):
        return {}
    ahead = scheduler["schedule_ahead"]
    if ahead:
        stages.decide_ahead(source, scheduler)
    tokens = source.whole(1, MOST)
    by_batch = source.chance(0.25)
    ranges = [[1, source.whole(0, tokens)], [source.whole(2, 4), source.whole(0, tokens)]]
    hashes = source.whole(0, 1) if scheduler["prefix_cache"] else 0
    budget = scheduler["max_num_batched_tokens"]
    fit = not ahead and (scheduler["prefix_cache"] is None or "tree" in scheduler["prefix_cache"])
    return {
        "speculation": {
            "tokens": tokens,
            "by_batch": ranges if by_batch else [],
            "proposals": None if ahead else source.maybe(0.3, lambda: listed(source, 5, tokens)),
            "acceptance": acceptance(source, tokens),
            "lookahead": source.pick((0, tokens)),
            **({"slots": "two_steps"} if source.chance(0.4 if fit else 0.02) else {}),
            "input_slots": source.pick((0, 0, 1)) if budget > 1 else 0,
            "hash_lookahead": hashes,
            "drops_last_block": bool(scheduler["prefix_cache"]) and source.chance(0.3),
            "pads": not by_batch and source.chance(0.7),
        }
    }


def stay(source: Source, instance: Wire) -> None:
    """Change drafts that keep requests on their instance, where requests leave it; rarely, keep them."""
    drafts = instance.get("speculation")
    if drafts is None or source.chance(0.02):
        return
    drafts.pop("slots", None)
    if "tree" in (instance["scheduler"]["prefix_cache"] or {}):
        instance.pop("speculation")


def listed(source: Source, stride: int, tokens: int) -> Wire:
    return {"stride": stride, "values": [source.whole(0, tokens) for _ in range(source.whole(1, 9))]}


def acceptance(source: Source, tokens: int) -> Wire:
    match source.pick(("periodic", "periodic", "by_row", "drawn", "listed")):
        case "periodic":
            least = source.whole(1, tokens)
            yields = [least + source.whole(0, 1) for _ in range(source.whole(1, 4))]
            return {"kind": "periodic", "yields": yields}
        case "by_row":
            one = source.whole(1, 7)
            means = [source.whole(one, one * (tokens + 1)) for _ in range(source.whole(1, 6))]
            return {"kind": "by_row", "denominator": one, "numerators": means}
        case "drawn":
            chances = [source.pick((0, CERTAIN // 3, CERTAIN // 2, CERTAIN)) for _ in range(tokens)]
            return {"kind": "drawn", "chances": chances, "seed": source.whole(0, 9)}
        case _:
            return {"kind": "listed", **listed(source, 7, tokens)}
