"""Pools whose instances are switched off: no rule may send a request there."""

from __future__ import annotations

from collections.abc import Iterator

from paceline.errors import PolicyError
from paceline.policy.counting import Counting
from paceline.policy.flips import Flip
from paceline.policy.monitors import Migrate
from paceline.policy.rules import Affinity, Chain, Pick, PromptOwner
from paceline.policy.value import shown
from paceline.policy.wire import Monitors, Rules

__all__ = ["check_switched_off"]


def check_switched_off(off: tuple[str, ...], rules: Rules, monitors: Monitors) -> None:
    """Refuse rules that may send a request to an instance that is switched off.

    Parameters
    ----------
    off
        The pools whose instances are switched off.
    rules, monitors
        Those of a policy. A Python function is not looked into.

    Raises
    ------
    PolicyError
        Names the rule.
    """
    if not off:
        return
    asked = [(moment, rule) for moment, rule in rules.items() if rule is not None]
    targets = [action.target for _, actions in monitors for action in actions if isinstance(action, Migrate)]
    for what, rule in [*asked, *(("target of migrate()", target) for target in targets)]:
        for part in _picking(rule):
            within = getattr(part, "within", None)
            if within is None or set(within) & set(off):
                raise PolicyError(
                    f"{what} must not send requests to {shown(off[0])}, a pool that is switched off, but "
                    f"{shown(part)} may; name the other pools in its within"
                )


def _picking(rule: object) -> Iterator[object]:
    """Yield the parts of a rule that pick an instance for a request, and not to flip it."""
    if isinstance(rule, Flip):
        return
    if isinstance(rule, str | Pick | Counting | Affinity | PromptOwner):
        yield rule
    elif isinstance(rule, Chain):
        for part in rule.inner:
            yield from _picking(part)
