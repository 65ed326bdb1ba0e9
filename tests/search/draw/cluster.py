"""A configuration: instances, roles, rules, links, pace, lockstep, samples, and the end of time."""

from __future__ import annotations

from copy import deepcopy

from search.draw import monitors, pipelines, rules, speculation, stages, step_limits, tiers
from search.draw.costs import curve
from search.draw.expressions import Wire
from search.draw.instances import instance, keeps_requests, malform
from search.draw.network import network
from search.draw.pace import pace
from search.draw.routers import holding, routers
from search.draw.source import Source


def cluster(source: Source) -> Wire:
    count = source.pick((1, 1, 1, 2, 2, 2, 3, 4))
    # Block sizes must divide one another where prompts share blocks; mostly all have the same.
    shared_size = source.pick((None, 1, 2, 4, 4))
    first = _any_instance(source, shared_size)
    alike = source.chance(0.5)
    fleet = [first if alike or index == 0 else _any_instance(source, shared_size) for index in range(count)]
    tiered = source.chance(0.15)
    for one in fleet if tiered else ():
        tiers.prepare(source, one)
    piped = not tiered and source.chance(0.15)
    for one in fleet if piped else ():
        pipelines.prepare(source, one)
    selects = any(stages.has(one["scheduler"]["stages"], "select") for one in fleet)
    # Steps that are decided ahead beside drafts take no hand-overs.
    ahead = any("speculation" in one and one["scheduler"]["schedule_ahead"] for one in fleet)
    # Beside a radix tree, and where tokens count late, requests are handed over, or stay where they are.
    offered = any(keeps_requests(one) for one in fleet) and not (tiered or piped)
    stay = any(keeps_requests(one) for one in fleet) and source.chance(0.4 if offered else 0.97)
    moves = not (piped or stay) and count > 1 and source.chance(0.65)
    early = moves and source.chance(0.3)
    hands_over = not (selects or ahead or piped or stay)
    overlaps = early and not any(stages.has(one["scheduler"]["stages"], "layered") for one in fleet)
    watched = not (piped or stay) and count > 1 and source.chance(0.4)
    drawn: Wire = {
        "instances": fleet,
        "routing": {
            "on_arrival": rules.on_arrival(source),
            "decode_on_arrival": rules.decode_on_arrival(source) if early else None,
            "on_prefilled": rules.later(source)
            if (not early and moves) or source.chance(0.0 if stay else 0.05)
            else None,
            "on_answering": rules.later(source) if moves else None,
            "every": monitors.monitors(source) if watched else [],
        },
        "roles": [source.whole(0, 2) for _ in fleet] if source.chance(0.6) else [],
        "handover": source.maybe(
            0.97 if offered else 0.6, lambda: handover(source, overlaps=overlaps, early=early)
        )
        if hands_over
        else None,
        "links": source.maybe(0.5, lambda: network(source, count)),
        "pace": None if piped else source.maybe(0.5, lambda: pace(source)),
        "lockstep": None if piped else source.maybe(0.15, lambda: groups(source, count)),
        "until": source.maybe(0.2, lambda: source.ticks(0, 800)),
        "sample": source.maybe(0.3, lambda: sample(source)),
    }
    routing = drawn["routing"]
    later = ("decode_on_arrival", "on_prefilled", "on_answering", "every")
    if not any(routing[name] for name in later):
        for one in fleet:
            step_limits.adapters(source, one["scheduler"])
    leave = moves or watched or drawn["handover"] is not None
    for one in fleet if leave else ():
        speculation.stay(source, one)
    # Prompts wait for those of other instances where requests stay, or are handed over.
    handed = drawn["handover"] is not None
    if (handed or not (moves or watched)) and not (tiered or piped or drawn["pace"]) and source.chance(0.2):
        drawn["lockstep"] = groups(source, count)
        for group in drawn["lockstep"]:
            if source.chance(0.8):
                group["balance"] = balance(source)
            balanced = "balance" in group or source.chance(0.1)
            for member in group["members"] if balanced else ():
                one = fleet[member] = deepcopy(fleet[member])
                stages.hold_prompts(source, one)
                one["scheduler"] |= {"prompt_batch": None, "admission": {"kind": "wait"}}
    stays = not (moves or watched or drawn["lockstep"] or drawn["handover"] or drawn["pace"])
    if piped and (stays or source.chance(0.03)):
        for one in fleet:
            pipelines.pipeline(source, one)
    elif not tiered and (source.chance(0.2) if stays else source.chance(0.005)):
        for one in fleet:
            stages.hold_prompts(source, one)
    accepts = drawn["handover"] is not None and "reserve" in drawn["handover"]
    for one in fleet if accepts and source.chance(0.6) else ():
        if one["scheduler"].get("output_reserve") and len(one["scheduler"]["stages"]) > 1:
            stages.swap_beside_reserve(source, one["scheduler"])
    for one in fleet:
        if watched or tiered or not stages.runs_past_ends(one["scheduler"]):
            one["scheduler"] |= {"unseen_ends": False} if source.chance(0.97) else {}
    for one in fleet if not piped else ():
        # Beside steps decided ahead and drafts, requests stay.
        bound = "speculation" in one or one["scheduler"]["schedule_ahead"]
        stored = "tree" not in (one["scheduler"]["prefix_cache"] or {})
        drops = stored and one["scheduler"].get("drop_unseen", False)
        if not (leave and bound) and not drops:
            tiers.tier(source, one)
    if not any(routing[name] for name in later) and drawn["lockstep"] is None and drawn["handover"] is None:
        tiers.stores(source, drawn)
    held = source.chance(0.15)
    if held:
        # A condition on the instance or the request, in place of a rule that always picks one.
        arrival = rules.partial(source, rules.KNOWN_OF_ARRIVALS)
        drawn["routing"]["on_arrival"] = holding(source, arrival, sessions=False)
    if held or source.chance(0.08):
        drawn["routers"] = routers(source, holds="'hold'" in str(drawn["routing"]["on_arrival"]))
    return drawn


def _any_instance(source: Source, block_tokens: int | None) -> Wire:
    drawn = instance(source, ranked=source.chance(0.48), block_tokens=block_tokens)
    if source.chance(0.03):
        malform(source, drawn["scheduler"])
    return drawn


def handover(source: Source, *, overlaps: bool, early: bool) -> Wire:
    return {
        "most_transfers": source.pick((None, None, 1, 2)),
        "most_held": source.pick((None, None, 0.05, 0.5, 1.0)),
        "lease": source.pick((None, source.ticks(1, 30), source.ticks(10, 200), source.ticks(500, 5000))),
        "overlap": source.pick(("none", "layers", "layers")) if overlaps else "none",
        **({"offer": "arrival"} if early and source.chance(0.5) else {}),
        **({"reserve": acceptance_reserve(source)} if source.chance(0.3) else {}),
    }


def acceptance_reserve(source: Source) -> Wire:
    """Draw what an acceptance leaves for the requests that run."""
    return {"tokens": source.pick((0, 1, 3, 8, 20)), "clip": source.pick((1, 4, 4096))}


def sample(source: Source) -> Wire:
    return {"every": source.ticks(1, 60), "most": source.pick((2, 5, 64, 10_000))}


def groups(source: Source, count: int) -> list[Wire]:
    """Draw the instances that step together: all, or groups of some of them."""
    places = [0] * count if source.chance(0.5) else [source.whole(0, 2) for _ in range(count)]
    return [
        {
            "members": [index for index, place in enumerate(places) if place == number],
            "shared": curve(source),
            "padded": source.pick((0, 1, 8, 64)),
            **({"prompts": source.ticks(1, 60)} if source.chance(0.2) else {}),
        }
        for number in (0, 1)
        if number in places
    ]


def balance(source: Source) -> Wire:
    """Draw for how long prompts wait until every member has one."""
    return {"timeout_steps": source.pick((1, 2, 3, 5, 20)), "gather_steps": source.pick((0, 0, 1, 2, 4))}
