"""A `Policy` of the public API from the routing that the engine reads."""

from __future__ import annotations

from typing import Any

from paceline.policy import (
    Gauge,
    Handover,
    Live,
    Pace,
    Policy,
    Pools,
    Reports,
    Scale,
    ScalingLimit,
    ScalingRules,
    Scheduler,
    first_of,
    gauge,
    hold,
    migrate,
    pick,
    scale,
    stay,
)
from paceline.policy.monitors import Migrate
from paceline.policy.rules import Pick, Rule
from search.spelled.expressions import NAMES, condition, number, pools
from search.spelled.scheduler import TICKS_PER_S

Wire = dict[str, Any]


def spell(config: Wire, scheduler: Scheduler) -> Policy:
    """Return the policy.

    Raises
    ------
    PolicyError
        If the public API refuses it.
    """
    routing, pace, handover = config["routing"], config["pace"], config.get("handover")
    every: dict[float, list[Migrate | Scale | Gauge]] = {}
    for monitor in routing["every"]:
        every.setdefault(monitor["period"] / TICKS_PER_S, []).extend(map(_action, monitor["actions"]))
    return Policy(
        name="drawn",
        scheduler=scheduler,
        on_arrival=_rule(routing["on_arrival"]),
        decode_on_arrival=routing.get("decode_on_arrival") and _rule(routing["decode_on_arrival"]),
        on_prefilled=routing["on_prefilled"] and _rule(routing["on_prefilled"]),
        on_answering=routing["on_answering"] and _rule(routing["on_answering"]),
        every=every,
        pools=Pools(**dict.fromkeys(NAMES.pools, 1)),
        handover=None if handover is None else _handover(handover),
        pace=None if pace is None else _pace(pace),
        **_routers(config.get("routers")),
    )


def sayable(config: Wire) -> bool:
    """Whether the public API can express a routing: it has one list of actions for each period."""
    periods = [monitor["period"] for monitor in config["routing"]["every"]]
    return len(set(periods)) == len(periods) and "class_requests" not in str(config["routing"])


def _routers(wire: Wire | None) -> Wire:
    if wire is None:
        return {}
    every, gives_up = (
        None if wire[name] is None else wire[name] / TICKS_PER_S for name in ("report_every", "give_up_after")
    )
    reports = None if every is None else Reports(every=every, **_relay(wire.get("relay")))
    return {"routers": wire["count"], "reports": reports, "give_up_after": gives_up, "seed": wire["seed"]}


def _relay(wire: Wire | None) -> Wire:
    if wire is None:
        return {}
    times = {"gap": wire["gap"] or None, "unit": wire["unit"], "whole_steps": wire["copies"]}
    told = {name: None if ticks is None else ticks / TICKS_PER_S for name, ticks in times.items()}
    return {**told, "on_change": "around" if wire["before"] else "after"}


def _handover(wire: Wire) -> Handover:
    fields = {**wire, "lease": None if wire["lease"] is None else wire["lease"] / TICKS_PER_S}
    reserve = fields.pop("reserve", None)
    kept = {} if reserve is None else {"reserve_tokens": reserve["tokens"], "reserve_clip": reserve["clip"]}
    return Handover(**fields, **kept)


def _pace(wire: Wire) -> Pace:
    ttft = wire["ttft"]
    return Pace(
        tpot=wire["interval"] / TICKS_PER_S,
        first=wire["first"] / TICKS_PER_S,
        ttft=None if ttft is None else ttft / TICKS_PER_S,
    )


def _rule(wire: Wire) -> Rule:
    match wire["rule"]:
        case "pick":
            return _pick(wire)
        case "first_of":
            return first_of(*map(_rule, wire["rules"]))
        case "unless":
            return _rule(wire["of"]).unless(condition(wire["when"]))  # type: ignore[union-attr]
        case "stay":
            return stay(when=None if wire["when"] is None else condition(wire["when"]))
        case "hold":
            return hold(blocks=wire.get("blocks"))
    name: Rule = wire["rule"]
    return name


def _pick(wire: Wire) -> Pick:
    parts = {name: None if wire.get(name) is None else condition(wire[name]) for name in ("where", "accept")}
    return pick(min=list(map(number, wire["min"])), within=pools(wire["within"]), **parts)


def _action(wire: Wire) -> Migrate | Scale | Gauge:
    if wire["action"] == "gauge":
        return gauge(
            NAMES.gauges[wire["index"]],
            number(wire["of"]),
            take=wire["take"],
            window_s=wire["window"] / TICKS_PER_S,
            within=pools(wire["within"]),
        )
    return _scale(wire) if wire["action"] == "scale" else _migrate(wire)


def _scale(wire: Wire) -> Scale:
    pool, off = (NAMES.pools[wire[name]] for name in ("pool", "off"))
    first = {name: _pick({**wire[name], "within": None}) for name in ("start", "stop")}
    return scale(
        number(wire["wanted"]),
        pool=pool,
        off=off,
        when=None if wire["when"] is None else condition(wire["when"]),
        least=wire["least"],
        most=wire["most"],
        averaged_s=wire["averaged"] / TICKS_PER_S,
        up=_scaling_rules(wire["up"]),
        down=_scaling_rules(wire["down"]),
        **first,
    )


def _scaling_rules(wire: Wire) -> ScalingRules:
    limits = [ScalingLimit(per_s=one["per"] / TICKS_PER_S, **one["by"]) for one in wire["limits"]]
    return ScalingRules(window_s=wire["window"] / TICKS_PER_S, limits=limits, select=wire["select"])


def _migrate(wire: Wire) -> Migrate:
    live = wire["live"]
    return migrate(
        source=_pick(wire["source"]),
        target=_pick(wire["target"]),
        choose=_pick(wire["choose"]),
        when=None if wire["when"] is None else condition(wire["when"]),
        live=None if live is None else Live(**live),
    )
