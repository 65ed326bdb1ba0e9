"""Prompts that wait until enough of them have gathered, while requests decode."""

from __future__ import annotations

from dataclasses import dataclass

from paceline._arguments import typed_fields
from paceline._check import said
from paceline.errors import PolicyError
from paceline.policy.value import Value

__all__ = ["PromptBatch"]

_MOST = 2**32 - 2


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class PromptBatch(Value):
    """Hold prompts back beside decodes until a step has enough tokens, or for a number of steps.

    A step counts its decodes and the tokens of the prompts that it could admit. If they
    are fewer than ``tokens``, it admits none, unless prompts were held back in ``steps``
    steps since prompts were let pass. A step without decodes, or in which no prompt fits,
    holds nothing back and counts nothing.

    Attributes
    ----------
    tokens
        Tokens of a step from which on it admits prompts.
    steps
        The most steps in which prompts are held back.

    Raises
    ------
    PolicyError
        If a value is out of its range.

    Examples
    --------
    >>> PromptBatch(tokens=6554, steps=40).to_wire()
    {'tokens': 6554, 'steps': 40}

    Notes
    -----
    Source: TensorRT-LLM 1.2, ``_waiting_requests`` of
    ``tensorrt_llm/_torch/pyexecutor/py_executor.py``.
    """

    tokens: int
    steps: int

    def __post_init__(self) -> None:
        for name in ("tokens", "steps"):
            if not 1 <= getattr(self, name) <= _MOST:
                raise PolicyError(
                    f"{name} of a PromptBatch must be 1 to {_MOST}, was {said(getattr(self, name))}"
                )

    def to_wire(self) -> dict[str, int]:
        """Return the rule as the engine reads it."""
        return {"tokens": self.tokens, "steps": self.steps}
