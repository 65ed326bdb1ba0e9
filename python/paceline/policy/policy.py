"""A policy: how requests are routed, how instances schedule them, and what monitors do."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from paceline._arguments import typed, typed_fields
from paceline._check import said
from paceline._clock import TICKS_PER_SECOND
from paceline._toml import build, dump
from paceline.errors import ConfigError, PolicyError
from paceline.objectives import SLO
from paceline.policy.at_router import Blocks, Hold
from paceline.policy.books import BOOKED, ActiveBlocks, PrefixIndex, PromptTree, books_to_wire
from paceline.policy.expressions.fields import meaning_of
from paceline.policy.expressions.tree import Expr, Field
from paceline.policy.expressions.wire import Names
from paceline.policy.flips import Flip, check_action, check_flips
from paceline.policy.gauges import Gauge, gauges_in
from paceline.policy.handover import Handover
from paceline.policy.monitors import Migrate
from paceline.policy.pacing import Pace
from paceline.policy.pools import Pools
from paceline.policy.routers import Reports, check_routers, routers_to_wire
from paceline.policy.rule_checks import check
from paceline.policy.rules import (
    Affinity,
    AffinityKey,
    PromptOwner,
    Routing,
    Rule,
    each,
    is_rule,
)
from paceline.policy.scaling import Scale
from paceline.policy.scheduler import Scheduler
from paceline.policy.schedulers import Schedulers
from paceline.policy.serialize import handover_to_table, monitors_to_tables, policy_fields, to_table
from paceline.policy.stages import Select
from paceline.policy.switched_off import check_switched_off
from paceline.policy.value import Value, shown
from paceline.policy.wire import MOMENTS, Action, check_names, expressions_in, routing_to_wire, rules_in

__all__ = ["Action", "Policy", "Routing"]


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(
    PolicyError,
    but=(
        "active",
        "decode_on_arrival",
        "every",
        "give_up_after",
        "handover",
        "index",
        "on_answering",
        "on_arrival",
        "on_prefilled",
        "pace",
        "pools",
        "reports",
        "routers",
        "scheduler",
        "seed",
        "slo",
        "tree",
    ),
)
class Policy(Value):
    """Route requests to instances, and say how instances form steps.

    Attributes
    ----------
    name
        What results and reports call it.
    scheduler
        How each instance forms its steps: a `Scheduler`, or one for each pool by
        its name. It belongs to the pool that an instance is in at the start.
    on_arrival
        The instance that an arrival is routed to: a name (see `Routing`), a rule
        made by `pick`, `first_of` and `flip`, or a Python function.
    decode_on_arrival
        The instance that it migrates to after its first token, where that is picked
        as it arrives; `inst.here` is the one that `on_arrival` picked. None: it
        stays, or `on_prefilled` picks.
    on_prefilled
        The instance that a request migrates to after its first token; None: it
        stays.
    on_answering
        The instance that it migrates to after its last reasoning token; None: it
        stays.
    every
        Monitors: a dictionary of periods in seconds and lists of `migrate`, `flip`,
        `scale` and `gauge`. Kept as pairs.
    pools
        The pool of each instance at the start; None: all instances are alike.
    handover
        How requests that migrate take memory; None: the KV of such a request waits in
        the target's CPU memory for its admission, and takes none of its blocks.
    pace
        How fast users read, for `inst.answering_on_pace` and `req.slack`.
    slo
        The objectives that `slo.ttft` and the other fields of `slo` stand for.
    reports
        How often instances report to the routers; None: routers see them as they
        are.
    routers
        How many routers there are, which all follow these rules, each with turns,
        random numbers and counts (`inst.routed_requests` and its like) of its own.
        Row i of the trace is routed by router i modulo this number.
    give_up_after
        Seconds from its arrival after which a request leaves that `hold` keeps at
        the router; None: it waits without limit.
    seed
        What the random choices of rules begin with (``ties="random"``, ``among``).
    index
        An index of prefixes that the router keeps, for ``inst.index_blocks(req)``.
    active
        Books of the blocks of unfinished requests that the router keeps, for
        ``inst.active_blocks`` and its like.
    tree
        A tree of prompts that the router keeps, for `prompt_owner`.

    Raises
    ------
    PolicyError
        If a rule reads a field that it cannot see, may leave an arrival without an
        instance, or names an unknown pool, class or objective; if a flip connects
        pools with different schedulers.

    Examples
    --------
    >>> from paceline import inst
    >>> from paceline.policy import pick
    >>> policy = Policy(name="mine", on_arrival=pick(min=inst.kv_tokens))
    >>> policy
    Policy(name='mine', on_arrival=pick(min=inst.kv_tokens))
    >>> Policy.from_toml(policy.to_toml()) == policy
    True
    """

    name: str
    scheduler: Scheduler | Mapping[str, Scheduler] = field(default_factory=Scheduler)
    on_arrival: Rule = "fewest_requests"
    decode_on_arrival: Rule | None = None
    on_prefilled: Rule | None = None
    on_answering: Rule | None = None
    every: Mapping[float, Sequence[Action]] | tuple[tuple[float, tuple[Action, ...]], ...] = ()
    pools: Pools | None = None
    handover: Handover | None = field(default_factory=Handover)
    pace: Pace | None = None
    slo: SLO | None = None
    reports: Reports | None = None
    routers: int = 1
    give_up_after: float | None = None
    seed: int = 0
    index: PrefixIndex | None = None
    active: ActiveBlocks | None = None
    tree: PromptTree | None = None

    def __post_init__(self) -> None:
        is_rule(self.on_arrival, "on_arrival")
        object.__setattr__(self, "every", _monitors(self.every))
        if self.pools is not None and not isinstance(self.pools, Pools):
            raise PolicyError(f"pools must be a Pools, was {said(self.pools)}")
        check(self.on_arrival, "on_arrival", arrival=True, steady=self._steady)
        for moment in MOMENTS[1:]:
            if (rule := getattr(self, moment)) is not None:
                check(rule, moment, arrival=False)
        if self.decode_on_arrival is not None and self.on_prefilled is not None:
            raise PolicyError(
                "on_prefilled must be None where decode_on_arrival picks the instances that decode, was "
                f"{shown(self.on_prefilled)}"
            )
        for moment, rule in self.rules.items():
            check_flips(rule, moment)
        for name, kind in _PARTS.items():
            value = getattr(self, name)
            if not isinstance(value, kind) and value is not None:
                raise PolicyError(f"{name} must be a {kind.__name__}, was {said(value)}")
        if isinstance(self.scheduler, Mapping):
            object.__setattr__(self, "scheduler", dict(self.scheduler))
        schedulers = Schedulers.of(self.scheduler, self.pools)
        check_routers(self.routers, self.seed, self.give_up_after, holds=self.holds)
        for part in self.fields():
            if part.name in ("answering_on_pace", "slack") and self.pace is None:
                raise PolicyError(f"{part!r} needs a policy with a pace, such as pace=Pace(tpot=0.1)")
        schedulers.check_classes(self.rules, self.monitors)
        selects = any(isinstance(stage, Select) for one in self.schedulers for stage in one.stages)
        if selects and self.migrates and self.handover is not None:
            raise PolicyError(
                "handover must be None where a scheduler has Select() and requests migrate, was "
                f"{self.handover!r}: ranks give no order in which to accept requests"
            )
        schedulers.check_loras(migrates=self.migrates)
        moves = any(self.rules[moment] is not None for moment in MOMENTS[1:])
        several = (action for _, actions in self.monitors for action in actions)
        monitored = any(isinstance(action, Migrate) for action in several)
        schedulers.check_trees(self.handover, moves=moves, monitored=monitored)
        overlap = "none" if self.handover is None else self.handover.overlap
        if overlap != "none" and self.decode_on_arrival is None:
            raise PolicyError(
                f"overlap of a Handover must be 'none' without decode_on_arrival, was {overlap!r}: blocks "
                "can be reserved during a prefill only on an instance that is picked before"
            )
        if (
            self.handover is not None
            and self.handover.offer != "prefilled"
            and self.decode_on_arrival is None
        ):
            raise PolicyError(
                "offer of a Handover must be 'prefilled' without decode_on_arrival, was "
                f"{self.handover.offer!r}: it can be offered only to an instance that is picked by then"
            )
        check_books(self)
        check_names(self.expressions(), self.rules, self.monitors, self._names(()))
        if self.pools is not None:
            schedulers.check_flips(self.pools, self.flips)
            self.pools._check_flips(self.flips)
            check_switched_off(self.pools.switched_off, self.rules, self.monitors)

    def __repr__(self) -> str:
        text = Value.__repr__(self)
        return text.replace(f"every={shown(self.monitors)}", f"every={shown(dict(self.monitors))}")

    def __getstate__(self) -> list[object]:
        """Return the fields, to be pickled.

        Raises
        ------
        PolicyError
            If a rule is a Python function that cannot be pickled.
        """
        for function in self.calls:
            try:
                pickle.dumps(function)
            except Exception as error:
                raise PolicyError(
                    f"{shown(function)} cannot be sent to another process: {error}; a function or a class of "
                    "a module can be, and a rule made of pick() and first_of()"
                ) from error
        return [getattr(self, each.name) for each in fields(self)]

    def __deepcopy__(self, memo: object) -> Policy:
        """Return the policy, which nothing changes."""
        return self

    def _repr_html_(self) -> str:
        """Show the name, the rules and the TOML in a notebook."""
        from paceline.showing.card import card

        try:
            text = self.to_toml()
        except PolicyError:  # it holds a Python function
            text = repr(self)
        rules = [(moment, str(rule)) for moment, rule in self.rules.items() if rule is not None]
        return card(f"Policy {self.name}", rules, texts=[("TOML", text)])

    @property
    def rules(self) -> dict[str, Rule | None]:
        """The rules by the names of their moments, such as `on_arrival`."""
        return {moment: getattr(self, moment) for moment in MOMENTS}

    @property
    def monitors(self) -> tuple[tuple[float, tuple[Action, ...]], ...]:
        """Pairs of a period in seconds and the actions taken at each end of it."""
        assert isinstance(self.every, tuple)
        return self.every

    @property
    def migrates(self) -> bool:
        """Whether a rule or a monitor may have requests migrate."""
        return bool(self.monitors) or any(self.rules[moment] is not None for moment in MOMENTS[1:])

    @property
    def flips(self) -> tuple[Flip, ...]:
        """The flips in its rules and monitors, each as often as it is used."""
        return tuple(rule for rule in rules_in(self.rules, self.monitors) if isinstance(rule, Flip))

    @property
    def schedulers(self) -> tuple[Scheduler, ...]:
        """The scheduler, or those of the pools, in the order of the pools."""
        return Schedulers.of(self.scheduler, self.pools).several

    @typed(PolicyError)
    def scheduler_of(self, instance: int) -> Scheduler:
        """Return the scheduler of an instance, by its index in the cluster."""
        return Schedulers.of(self.scheduler, self.pools).of_instance(instance)

    def _steady(self, pools: frozenset[str]) -> bool:
        """Whether there is an instance in one of some pools at every moment."""
        return self.pools is None or self.pools._never_empty(pools, self.flips)

    def expressions(self) -> Iterator[Expr]:
        """Yield each expression of the policy, its scheduler's first."""
        for scheduler in self.schedulers:
            yield from scheduler.expressions()
        yield from expressions_in(self.rules, self.monitors)

    def fields(self) -> Iterator[Field]:
        """Yield the fields that its expressions read, as often as they do."""
        for expression in self.expressions():
            yield from (part for part in expression.walk() if isinstance(part, Field))

    @property
    def uses_oracle(self) -> bool:
        """Whether the policy reads what no real scheduler knows, such as the length of an output."""
        if self.active is not None and self.active.outputs == "decaying":
            return True
        if self.handover is not None and self.handover.reserve_tokens is not None:
            return True
        ranked = any(scheduler.uses_oracle for scheduler in self.schedulers)
        return ranked or any(part.space == "oracle" for part in self.fields())

    @property
    def reads_prefixes(self) -> bool:
        """Whether it depends on what prompts share: by a prefix cache, or by what the router keeps."""
        caches = (scheduler.prefix_cache for scheduler in self.schedulers)
        kept = (*caches, self.index, self.active, self.tree)
        return any(part is not None for part in kept)

    @property
    def columns(self) -> frozenset[str]:
        """The columns of a trace that its expressions read: of ``priority``, ``score`` and ``tenant``."""
        return frozenset(
            part.name
            for part in self.fields()
            if part.space == "req" and meaning_of("req", part.name).wire in ("priority", "score", "tenant")
        )

    @property
    def numbers(self) -> tuple[str, ...]:
        """The further columns of a trace that `req.column` reads, in the order of their numbers."""
        read = {part.argument for part in self.fields() if (part.space, part.name) == ("req", "column")}
        return tuple(sorted(name for name in read if name is not None))

    @property
    def grouped(self) -> frozenset[str]:
        """By what its schedulers accumulate numbers: of ``tenant`` and ``session``."""
        several = (each.by for scheduler in self.schedulers for each in scheduler.accumulators)
        return frozenset(by for by in several if by != "all")

    @property
    def affinities(self) -> frozenset[AffinityKey]:
        """What its rules hash: of ``session``, ``tenant`` and ``prefix``."""
        rules = (part for rule in self.rules.values() for part in each(rule))
        return frozenset(rule.key for rule in rules if isinstance(rule, Affinity))

    @property
    def blocks(self) -> frozenset[Blocks]:
        """Which later requests wait behind those that it holds: of ``all``, ``tenant`` and ``session``."""
        rules = each(self.on_arrival)
        return frozenset(rule.blocks for rule in rules if isinstance(rule, Hold) and rule.blocks is not None)

    @property
    def holds(self) -> bool:
        """Whether routers may hold requests."""
        return any(isinstance(part, Hold) for part in each(self.on_arrival))

    @property
    def calls(self) -> list[Callable[..., Any]]:
        """The Python functions among its rules, in the order in which the engine numbers them."""
        found = [part for rule in self.rules.values() for part in each(rule)]
        return [part for part in found if callable(part) and not isinstance(part, Value)]

    def _names(self, tenants: Sequence[str]) -> Names:
        return Names(
            tenants=tenants,
            pools=() if self.pools is None else self.pools.names,
            classes=tuple(each.name for each in self.schedulers[0].classes),
            columns=self.numbers,
            gauges=gauges_in(action for _, actions in self.monitors for action in actions),
            bounds={} if self.slo is None else self.slo.bounds(),
        )

    @typed(PolicyError)
    def names(self, tenants: Sequence[str] = ()) -> Names:
        """Return the codes that names have in a replay, given the tenants of its trace."""
        return self._names(tenants)

    @typed(PolicyError)
    def to_wire(
        self, *, instances: int, tenants: Sequence[str] = (), ticks_per_s: float = TICKS_PER_SECOND
    ) -> dict[str, Any]:
        """Return the policy as the engine reads it, without the scheduler.

        Parameters
        ----------
        instances
            How many the cluster has.
        tenants
            Names of the trace's tenants, in the order of their codes.
        ticks_per_s
            Ticks in a second.

        Returns
        -------
        dict
            ``routing``, ``roles``, ``leaving``, ``handover``, ``pace`` and ``routers``.

        Raises
        ------
        PolicyError
            If a rule names a tenant that the trace does not have, or the sizes of
            the pools do not add up to the number of instances.
        """
        routing = routing_to_wire(self.rules, self.monitors, self._names(tenants), ticks_per_s)
        if (self.index, self.active, self.tree) != (None, None, None):
            routing["books"] = books_to_wire(self.index, self.active, self.tree)
        return {
            "routing": routing,
            "roles": [0] * instances if self.pools is None else self.pools.roles(instances),
            "leaving": [] if self.pools is None else self.pools.leaving_to_wire(ticks_per_s),
            "handover": self.handover.to_wire(ticks_per_s) if self.migrates and self.handover else None,
            "pace": None if self.pace is None else self.pace.to_wire(ticks_per_s),
            "routers": routers_to_wire(
                self.routers, self.reports, self.give_up_after, self.seed, ticks_per_s
            ),
        }

    def to_toml(self) -> str:
        """Write the policy as TOML: expressions and rules as text, without fields that have their defaults.

        Raises
        ------
        PolicyError
            If a rule is a Python function, which no file can hold.
        """
        for function in self.calls:
            raise PolicyError(
                f"{shown(function)} is a Python function, which TOML cannot hold; a rule made of pick() and "
                "first_of() can be written"
            )
        content = to_table(self)
        content["scheduler"] = to_table(self.scheduler)
        if self.monitors:
            content["every"] = monitors_to_tables(self.monitors)
        content.pop("handover", None)
        if self.handover is None:
            content["handover"] = "none"
        elif self.handover != Handover():
            content["handover"] = handover_to_table(self.handover)
        if self.slo is not None:
            content["slo"] = self.slo.bounds()
        return dump(content)

    @classmethod
    @typed(PolicyError)
    def from_toml(cls, text: str) -> Policy:
        """Read a policy that `to_toml` wrote, or that was written by hand.

        Raises
        ------
        PolicyError
            If the text is not TOML, or a field is unknown, missing or of the
            wrong kind.
        """
        try:
            return build(cls, policy_fields(text), "a policy")
        except ConfigError as error:
            raise PolicyError(str(error)) from error


_PARTS: dict[str, type] = {
    "handover": Handover,
    "pace": Pace,
    "slo": SLO,
    "reports": Reports,
    "index": PrefixIndex,
    "active": ActiveBlocks,
    "tree": PromptTree,
}
"""What parts of a policy are of; each may be None."""


def check_books(policy: Policy) -> None:
    """Refuse a policy that reads what its router does not keep, or that reads it where no request is routed.

    Raises
    ------
    PolicyError
        Names the field or the rule, and what would be right.
    """
    for expression in policy.expressions():
        for part in expression.walk():
            if isinstance(part, Field) and part.space.startswith("inst") and part.name in BOOKED:
                name, example = BOOKED[part.name]
                if getattr(policy, name) is None:
                    raise PolicyError(
                        f"{part!r} needs a policy with {name}={example}, which the router keeps"
                    )
    elsewhere = [
        *(expr for scheduler in policy.schedulers for expr in scheduler.expressions()),
        *expressions_in(dict.fromkeys(MOMENTS), policy.monitors),
    ]
    for expression in elsewhere:
        for part in expression.walk():
            if isinstance(part, Field) and part.space.startswith("inst") and part.name in BOOKED:
                raise PolicyError(
                    f"{part!r} must be read in on_arrival, on_prefilled or on_answering: a router keeps it, "
                    "which a scheduler and a monitor do not see"
                )
    rules = [part for rule in policy.rules.values() for part in each(rule)]
    if policy.tree is None and (owner := next((r for r in rules if isinstance(r, PromptOwner)), None)):
        raise PolicyError(f"{owner!r} needs a policy with tree=PromptTree(), which the router keeps")


def _monitors(every: object) -> tuple[tuple[float, tuple[Action, ...]], ...]:
    pairs = every.items() if isinstance(every, Mapping) else every
    try:
        checked = tuple((float(seconds), tuple(actions)) for seconds, actions in pairs)  # type: ignore[attr-defined]
    except (TypeError, ValueError) as error:
        raise PolicyError(f"every must be {{seconds: [migrate(...), ...]}}, was {said(every)}") from error
    for seconds, actions in checked:
        if not 1e-9 <= seconds < 1e6:
            raise PolicyError(
                f"every must have periods of 1e-9 or more seconds, below 1e6, was {said(seconds)}"
            )
        for action in actions:
            if not isinstance(action, Migrate | Scale | Gauge):
                check_action(action, "every")
    return checked
