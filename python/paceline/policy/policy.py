"""A policy: where requests go, and how instances run them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from paceline._toml import build, dump, parse
from paceline.errors import ConfigError, PolicyError
from paceline.policy.scheduler import Scheduler
from paceline.policy.serialize import scheduler_from_table, to_table

__all__ = ["Policy", "Routing"]

Routing = Literal["round_robin", "fewest_requests", "fewest_tokens"]
"""Which instance an arrival joins; ties go to the lowest index.

``round_robin``: each in turn. ``fewest_requests``: the fewest requests sent
there and not finished. ``fewest_tokens``: the fewest tokens, over those
requests, of prompt and of output so far. An instance is seen as of its last
finished step.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Say where a request goes when it arrives, and how instances form steps.

    Attributes
    ----------
    name
        What results and reports call it.
    scheduler
        How each instance forms its steps.
    on_arrival
        The routing rule (see `Routing`).

    Raises
    ------
    PolicyError
        If the routing rule is not one of those.

    Examples
    --------
    >>> policy = Policy(name="mine", on_arrival="fewest_tokens")
    >>> Policy.from_toml(policy.to_toml()) == policy
    True
    """

    name: str
    scheduler: Scheduler = field(default_factory=Scheduler)
    on_arrival: Routing = "fewest_requests"

    def __post_init__(self) -> None:
        if self.on_arrival not in get_args(Routing):
            legal = ", ".join(get_args(Routing))
            raise PolicyError(f"on_arrival must be one of {legal}, was {self.on_arrival!r}")

    def to_toml(self) -> str:
        """Write the policy as TOML, without the fields that are None."""
        return dump(to_table(self))

    @classmethod
    def from_toml(cls, text: str) -> Policy:
        """Read a policy that `to_toml` wrote, or that was written by hand.

        Raises
        ------
        PolicyError
            If the text is not TOML, or a field is unknown, missing or of the
            wrong kind.
        """
        try:
            content = parse(text, "a policy")
            if "scheduler" in content:
                content["scheduler"] = scheduler_from_table(content["scheduler"])
            return build(cls, content, "a policy")
        except ConfigError as error:
            raise PolicyError(str(error)) from error
