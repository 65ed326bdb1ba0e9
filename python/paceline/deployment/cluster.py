"""The cluster: instances behind one router."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby
from typing import Any

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline._clock import moment
from paceline._toml import build, dump, parse, table
from paceline.cost import Roofline
from paceline.deployment.balance import Balance
from paceline.deployment.instance import Instance
from paceline.deployment.links import Links
from paceline.deployment.links_toml import links_from_table, links_table
from paceline.deployment.lockstep import Lockstep
from paceline.deployment.toml import instance_fields, instance_table
from paceline.errors import ConfigError
from paceline.kernels.loaded import is_table
from paceline.prediction import Prediction
from paceline.trace import Trace

__all__ = ["Cluster"]


@dataclass(frozen=True, slots=True)
@typed_fields(but=("instances", "links"))
class Cluster:
    """Instances that share a router.

    Parameters
    ----------
    instances
        One or more instances; results number them in this order.
    links
        The network between them; None: requests migrate in no time.
    lockstep
        Which of them are the data-parallel ranks of one mixture of experts: a :class:`Lockstep` for each
        group, whose members start their steps together. An instance in no group steps on its own. True: all
        are one group, of the cluster's ``balance``. Times follow the tokens of all members with a Table, and
        with a Roofline those of the slowest, as if the others had as many; the traffic of each is counted as
        if the others had as many tokens as it has.
    frontend_s
        Seconds from a request's arrival until the router sees it: the API server, its tokenizer, and the way
        to the engine. TTFT, queueing and E2E latency begin with the arrival, so they include it; policies
        and paces see a request after it. 0 by default, as it depends on the server. vLLM 0.23.0 with
        Qwen3-14B and prompts of 1,000 tokens takes 7 to 10 ms beyond its kernels (``paceline validate`` on
        residency-vllm's runs, README).
    prediction
        The time in which a predictor scores each prompt between the front end and the router. The column
        ``prediction`` has it, as a part of queueing; policies and paces see a request after it. None: scores
        cost nothing.
    balance
        With ``lockstep=True``, when prompts of an instance wait for those of the others; None: they do not.
        Other groups have a balance of their own.

    Raises
    ------
    ConfigError
        If there is no instance, one is of another type, or they cannot step together.

    Examples
    --------
    >>> cluster = Cluster(8 * [Instance(model="llama-3.1-8b", gpu="h100-sxm")])
    >>> len(cluster.instances)
    8
    >>> Cluster.from_toml(cluster.to_toml()) == cluster
    True
    """

    instances: Sequence[Instance]
    links: Links | None = None
    lockstep: bool | tuple[Lockstep, ...] = False
    frontend_s: float = 0.0
    prediction: Prediction | None = None
    balance: Balance | None = None

    def __post_init__(self) -> None:
        if isinstance(self.instances, Instance):
            raise ConfigError("instances of a Cluster must be a sequence: Cluster([instance])")
        given: object = self.instances
        if not isinstance(given, tuple | list):
            raise ConfigError(f"instances of a Cluster must be a list of Instance, was {_check.said(given)}")
        instances = tuple(given)
        if not instances:
            raise ConfigError("instances of a Cluster must be at least one, were none")
        for index, instance in enumerate(instances):
            if not isinstance(instance, Instance):
                raise ConfigError(
                    f"instance {index} of a Cluster must be an Instance, was {_check.said(instance)}"
                )
        object.__setattr__(self, "instances", instances)
        if self.links is not None and not isinstance(self.links, Links):
            raise ConfigError(f"links of a Cluster must be Links or None, was {_check.said(self.links)}")
        if self.links is not None:
            self.links.check(len(instances))
        moment("frontend_s", self.frontend_s)
        if self.balance is not None and self.lockstep is not True:
            raise ConfigError(
                "balance of a Cluster must be None unless its instances are in lockstep (True); a group has "
                "its own"
            )
        if not isinstance(self.lockstep, bool):
            object.__setattr__(self, "lockstep", tuple(self.lockstep))
        self._check_groups()

    @property
    def groups(self) -> tuple[Lockstep, ...]:
        """The instances that step together, by group."""
        if self.lockstep is True:
            return (Lockstep(range(len(self.instances)), self.balance),)
        return self.lockstep if isinstance(self.lockstep, tuple) else ()

    def _check_groups(self) -> None:
        """Refuse groups whose members cannot step together."""
        seen: set[int] = set()
        for number, group in enumerate(self.groups):
            what = "instances of a Cluster in lockstep"
            if self.lockstep is not True:
                what = f"members of group {number} in the lockstep of a Cluster"
            if max(group.members) >= len(self.instances):
                raise ConfigError(
                    f"{what} must be indexes of its {len(self.instances)} instances, was {group.members}"
                )
            if twice := sorted(seen.intersection(group.members)):
                raise ConfigError(f"{what} must be in no other group, but instance {twice[0]} is")
            seen.update(group.members)
            first, *others = (self.instances[member] for member in group.members)
            cost = first.cost
            ranks = cost.data_parallel if isinstance(cost, Roofline) or is_table(cost) else 0
            if ranks != len(group.members) or any(other != first for other in others):
                raise ConfigError(
                    f"{what} must be equal, with a Table or a Roofline of data_parallel "
                    f"{len(group.members)}, was {ranks}"
                )
            if first.cuda_graphs is not None and first.cuda_graphs.eager_step_s:
                raise ConfigError(
                    f"eager_step_s of {what} must be 0, since their steps are priced in parts, was "
                    f"{first.cuda_graphs.eager_step_s}"
                )

    @typed()
    def with_room_for(self, trace: Trace) -> Cluster:
        """Return the cluster with memory on each instance for all requests of a trace at once.

        On it no request waits for memory or is preempted, whatever the policy: PASCAL's authors call this the
        oracle (section III-A). Costs stay as they are.

        Parameters
        ----------
        trace
            The trace with the prompts and outputs that must fit.

        Examples
        --------
        >>> from paceline import Trace
        >>> from paceline.cost import Affine
        >>> trace = Trace.from_columns(arrival=[0, 0], prompt_tokens=[30, 10], output_tokens=[5, 6])
        >>> small = Cluster([Instance(cost=Affine(step_s=0.01), num_blocks=4)])
        >>> small.with_room_for(trace).instances[0].usable_blocks  # 35 and 16 tokens, in blocks of 16
        4
        """
        prompt, output = (trace.frame[name].cast(int) for name in ("prompt_tokens", "output_tokens"))

        def roomy(instance: Instance) -> Instance:
            size = instance.block_tokens
            blocks = int(((prompt + output + (size - 1)) // size).sum())
            return replace(instance, num_blocks=max(blocks, instance.usable_blocks) + 1)

        distinct = {instance: roomy(instance) for instance in set(self.instances)}
        return replace(self, instances=tuple(distinct[instance] for instance in self.instances))

    def _repr_html_(self) -> str:
        """Show a row for each kind of instance, and the TOML, in a notebook."""
        from paceline.showing.card import card

        rows = []
        for instance, same in groupby(self.instances):
            model, gpu = (getattr(of, "name", None) or "–" for of in (instance.model, instance.gpu))
            split = f"{instance.tensor_parallel} × {instance.pipeline_parallel}"
            rows.append((model, f"{sum(1 for _ in same):,}", gpu, split, f"{instance.usable_blocks:,}"))
        head = ("model", "instances", "GPU", "tensor × pipeline", "KV blocks")
        return card(
            f"Cluster of {len(self.instances):,} {'instance' if len(self.instances) == 1 else 'instances'}",
            head=head,
            rows=rows,
            texts=[("TOML", self.to_toml())],
        )

    def to_toml(self) -> str:
        """Return the cluster as the text of a TOML file: equal neighbours share a table with a ``count``."""
        tables = []
        for instance, same in groupby(self.instances):
            number = sum(1 for _ in same)
            tables.append(({"count": number} if number > 1 else {}) | instance_table(instance))
        head: dict[str, Any] = {"lockstep": True} if self.lockstep is True else {}
        if self.frontend_s:
            head["frontend_s"] = float(self.frontend_s)
        if self.prediction is not None:
            head["prediction"] = table(self.prediction)
        if self.balance is not None:
            head["balance"] = table(self.balance)
        if isinstance(self.lockstep, tuple) and self.lockstep:
            head["lockstep"] = [_group_table(group) for group in self.lockstep]
        if self.links is not None:
            head["links"] = links_table(self.links)
        return dump(head | {"instances": tables})

    def entrance_to_wire(self) -> dict[str, Any]:
        """Return the stages between an arrival and the router, as the engine takes them."""
        return {
            "frontend": moment("frontend_s", self.frontend_s),
            "prediction": None if self.prediction is None else self.prediction.to_wire(),
        }

    @classmethod
    @typed()
    def from_toml(cls, text: str) -> Cluster:
        """Read a cluster that :meth:`to_toml` wrote, or that was written by hand.

        Examples
        --------
        >>> cluster = Cluster.from_toml('''
        ... [[instances]]
        ... count = 4
        ... model = "llama-3.1-8b"
        ... gpu = "h100-sxm"
        ... ''')
        >>> len(cluster.instances)
        4
        """
        content = parse(text, "a cluster")
        tables = content.get("instances")
        if not isinstance(tables, list) or not set(content) <= {each.name for each in fields(cls)}:
            raise ConfigError(
                f"a cluster must be tables [[instances]], and perhaps [links], [[lockstep]], [prediction], "
                f"[balance] and frontend_s, was {sorted(content)}"
            )
        instances: list[Instance] = []
        for index, own in enumerate(tables):
            what = f"table {index} of instances"
            if not isinstance(own, Mapping):
                raise ConfigError(f"{what} must be a table, was {own!r}")
            own = dict(own)
            number = own.pop("count", 1)
            _check.count(f"count of {what}", number)
            instances += number * [build(Instance, instance_fields(own, what), what)]
        links = links_from_table(content["links"], "links of a cluster") if "links" in content else None
        head: dict[str, Any] = {name: content[name] for name in ("lockstep", "frontend_s") if name in content}
        if "prediction" in content:
            head["prediction"] = build(Prediction, content["prediction"], "prediction of a cluster")
        if "balance" in content:
            head["balance"] = build(Balance, content["balance"], "balance of a cluster")
        if isinstance(head.get("lockstep"), list):
            head["lockstep"] = tuple(
                _group_from_table(group, f"table {at} of lockstep")
                for at, group in enumerate(head["lockstep"])
            )
        return cls(instances, links, **head)


def _group_table(group: Lockstep) -> dict[str, Any]:
    """Return a group as a TOML table."""
    content: dict[str, Any] = {"members": list(group.members)}
    return content if group.balance is None else {**content, "balance": table(group.balance)}


def _group_from_table(content: object, what: str) -> Lockstep:
    """Return the group of a TOML table; ``what`` names it in errors."""
    if not isinstance(content, Mapping):
        raise ConfigError(f"{what} must be a table, was {_check.said(content)}")
    content = dict(content)
    if "balance" in content:
        content["balance"] = build(Balance, content["balance"], f"balance of {what}")
    return build(Lockstep, content, what)
