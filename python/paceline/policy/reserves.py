"""Room that admissions leave for outputs to come."""

from __future__ import annotations

from dataclasses import dataclass

from paceline._arguments import typed_fields
from paceline._check import said
from paceline.errors import PolicyError
from paceline.policy.value import Value

__all__ = ["OutputReserve"]

_MILLION = 10**6
_MOST = 2**20


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class OutputReserve(Value):
    """Admit a request only beside a share of the tokens that running requests may still generate.

    A request is admitted if its tokens that are not cached, its output and one block
    are fewer than the free tokens less the reserve. The reserve is the ``share`` of the
    output tokens that running requests have left. The share falls with each step that
    has decodes alone, in a straight line, to ``least``. If requests are preempted, it is
    estimated anew: the share of their outputs that the others have generated, and
    ``ahead`` tokens more of each. An instance without requests begins again with the
    first share.

    After an admission failed, none is tried before a request leaves.

    Attributes
    ----------
    share
        The first share, 0 to 1.
    least
        The least share.
    steps
        Steps of decodes alone from one to the other.
    ahead
        Tokens of each running request that an estimate adds.
    clip
        Output tokens of a request that count, at most.

    Raises
    ------
    PolicyError
        If a value is out of its range.

    Examples
    --------
    >>> OutputReserve(share=0.35).to_wire()
    {'first': 350000, 'least': 49000, 'steps': 600, 'after': 20, 'clip': 4096}

    Notes
    -----
    Source: SGLang 0.5.23, ``PrefillAdder`` of ``srt/managers/schedule_policy.py`` and
    ``NewTokenRatioTracker`` of ``srt/managers/scheduler_components``. SGLang takes a
    request's ``max_new_tokens``; a replay takes its output's length from the trace.
    SGLang computes with floating-point numbers and this with fractions, which differ
    where a request fits to the token.
    """

    share: float = 0.7
    least: float | None = None
    steps: int = 600
    ahead: int = 20
    clip: int = 4096

    def __post_init__(self) -> None:
        if self.least is None:
            object.__setattr__(self, "least", round(self.share * 0.14, 6))
        if not 0 <= self._least <= self.share <= 1:
            raise PolicyError(
                f"share and least of an OutputReserve must be 0 <= least <= share <= 1, were "
                f"{said(self.share)} and {said(self.least)}"
            )
        for name, least in (("steps", 1), ("ahead", 0), ("clip", 1)):
            if not least <= getattr(self, name) <= _MOST:
                was = said(getattr(self, name))
                raise PolicyError(f"{name} of an OutputReserve must be {least} to {_MOST:,}, was {was}")

    @property
    def _least(self) -> float:
        return 0.0 if self.least is None else self.least

    def to_wire(self) -> dict[str, int]:
        """Return the reserve as the engine reads it, its shares in millionths."""
        return {
            "first": round(self.share * _MILLION),
            "least": round(self._least * _MILLION),
            "steps": self.steps,
            "after": self.ahead,
            "clip": self.clip,
        }
