"""Instances that step together: the ranks of attention that share the experts of one model."""

from __future__ import annotations

from dataclasses import dataclass

from paceline._arguments import typed_fields
from paceline._check import said
from paceline.deployment.balance import Balance
from paceline.errors import ConfigError

__all__ = ["Lockstep"]


@dataclass(frozen=True, slots=True)
@typed_fields()
class Lockstep:
    """Instances that step together, as ranks of attention of one model (attention data parallel).

    Each schedules by itself, none starts a step before all have ended theirs, and experts compute the tokens
    of all. Other groups, and instances in none, go on meanwhile.

    Parameters
    ----------
    members
        The instances, by their index in the cluster: equal ones, whose cost has as many ``data_parallel``
        ranks. A :class:`~paceline.kernels.Table` prices the experts by the tokens of all; a
        :class:`~paceline.cost.Roofline` prices each member as if the others had as many tokens as it has, and
        the slowest counts.
    balance
        When prompts of a member wait for those of the others; None: they do not. It takes a policy that
        admits whole prompts after the running requests, in the order of arrival.

    Raises
    ------
    ConfigError
        If there are no members, or one is named twice.

    Examples
    --------
    Two instances that prefill on two ranks each, and one that decodes on four:

    >>> groups = [Lockstep(range(0, 2)), Lockstep(range(2, 4)), Lockstep(range(4, 8))]
    >>> groups[1].members
    (2, 3)
    """

    members: tuple[int, ...] | range
    balance: Balance | None = None

    def __post_init__(self) -> None:
        members = tuple(self.members)
        if not members or len(set(members)) < len(members) or min(members) < 0:
            raise ConfigError(
                "members of a Lockstep must be indexes of at least one instance, each of another, "
                f"was {said(list(members))}"
            )
        object.__setattr__(self, "members", members)
