"""Routing: on arrival, after prefill, and at the start of the answer."""

from __future__ import annotations

from search.draw.expressions import Wire, condition, number, over_holds, roles
from search.draw.fields import CANDIDATE, OF_INSTANCE, OF_REQUEST, Fields, subject
from search.draw.source import Source

BY_NAME = ("round_robin", "fewest_requests", "fewest_tokens")
OF_CANDIDATE = subject(CANDIDATE, "inst")
OF_BOTH = subject(CANDIDATE, "here", "there")
# An arriving request is on no instance and has no progress yet.
KNOWN_OF_ARRIVALS: Fields = {
    name: near
    for name, near in OF_REQUEST.items()
    if name
    in (
        *("req.arrival_s", "req.prompt_tokens", "req.priority", "req.score", "req.tenant", "req.prefill_s"),
        *("oracle.output_tokens", "oracle.reasoning_tokens"),
    )
}


def pick(source: Source, of_request: Fields, *, total: bool) -> Wire:
    """Draw a rule that picks the instance with the least of something; ``total``: it always picks one."""

    def may() -> Wire:
        if source.chance(0.25):
            return over_holds(source, subject(OF_INSTANCE, "inst"))
        return condition(source, source.pick((OF_CANDIDATE, of_request, {**OF_CANDIDATE, **of_request})))

    least = source.some(1, 2, lambda: number(source, OF_CANDIDATE))
    if source.chance(0.1):
        # Which class a request is in is read at moments at which no rank is.
        least = [{"field": "inst.class_requests", "class": source.whole(0, 2)}, *least[1:]]
    drawn: Wire = {"rule": "pick", "min": least, "where": None, "accept": None, "within": None}
    if not total:
        drawn["where"] = source.maybe(0.5, may)
        drawn["accept"] = source.maybe(0.4, may)
        drawn["within"] = source.maybe(0.3, lambda: roles(source))
    return drawn


def partial(source: Source, of_request: Fields) -> Wire:
    """Draw a rule that mostly may pick no instance, so that the next rule is evaluated."""
    drawn = pick(source, of_request, total=False)
    if drawn["where"] is None and drawn["accept"] is None and source.chance(0.9):
        drawn["where"] = condition(source, {**OF_CANDIDATE, **of_request})
    return drawn


def on_arrival(source: Source) -> Wire:
    """Draw a rule that picks an instance for every arrival."""
    last = (
        {"rule": source.pick(BY_NAME)} if source.chance(0.55) else pick(source, KNOWN_OF_ARRIVALS, total=True)
    )
    before = source.some(0, source.pick((0, 1, 2)), lambda: partial(source, KNOWN_OF_ARRIVALS))
    return {"rule": "first_of", "rules": [*before, last]} if before else last


def decode_on_arrival(source: Source) -> Wire:
    """Draw a rule that picks, as a request arrives, the instance on which it decodes; it may pick none."""
    here = {**subject(OF_INSTANCE, "here"), **KNOWN_OF_ARRIVALS}

    def part() -> Wire:
        match source.pick(("pick", "pick", "unless", "stay")):
            case "pick":
                return partial(source, KNOWN_OF_ARRIVALS)
            case "unless":
                of = pick(source, KNOWN_OF_ARRIVALS, total=True)
                return {
                    "rule": "unless",
                    "of": of,
                    "when": condition(source, {**OF_BOTH, **KNOWN_OF_ARRIVALS}),
                }
            case _:
                return {"rule": "stay", "when": condition(source, here)}

    parts = source.some(0, source.pick((0, 1, 2)), part)
    if not parts or source.chance(0.8):
        named = source.chance(0.4)
        parts.append({"rule": source.pick(BY_NAME)} if named else pick(source, KNOWN_OF_ARRIVALS, total=True))
    return parts[0] if len(parts) == 1 else {"rule": "first_of", "rules": parts}


def later(source: Source) -> Wire | None:
    """Draw a rule for a request that is on an instance already, or none."""
    here = {**subject(OF_INSTANCE, "here"), **OF_REQUEST}

    def part() -> Wire:
        match source.pick(("pick", "total", "unless", "unless", "stay", "stay", "name")):
            case "pick":
                return partial(source, OF_REQUEST)
            case "total":
                return pick(source, OF_REQUEST, total=True)
            case "unless":
                of = pick(source, OF_REQUEST, total=True)
                return {"rule": "unless", "of": of, "when": condition(source, {**OF_BOTH, **OF_REQUEST})}
            case "name":
                return {"rule": source.pick(BY_NAME)}
            case _:
                return {"rule": "stay", "when": source.maybe(0.8, lambda: condition(source, here))}

    parts = source.some(0, 3, part)
    if not parts:
        return None
    # A rule that always picks an instance is mostly the last: no rule after it would be evaluated.
    if source.chance(0.9):
        parts.sort(key=_always)
        final = [at for at, part in enumerate(parts) if _always(part)]
        parts = parts[: final[0] + 1] if final else parts
    return parts[0] if len(parts) == 1 else {"rule": "first_of", "rules": parts}


def _always(rule: Wire) -> bool:
    """Whether a rule picks an instance in any state of the cluster."""
    if rule["rule"] == "pick":
        return not (rule["where"] or rule["accept"] or rule["within"])
    return rule["rule"] in BY_NAME or rule == {"rule": "stay", "when": None}
