"""A cost model that is linear in the tokens of a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paceline._arguments import typed
from paceline._clock import ticks
from paceline._toml import build, dump, parse
from paceline.cost.tables import cost_to_table, fields_of
from paceline.errors import ConfigError

__all__ = ["Affine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Affine:
    """A linear cost: a constant, a price per token computed, a price per token of context.

    Parameters
    ----------
    step_s
        Seconds of any step, however small.
    token_s
        Seconds for each token computed, decode and prefill alike.
    kv_token_s
        Seconds for each token of context that those attend to.

    Raises
    ------
    ConfigError
        If a price is negative or not finite, or all are zero: a step must take time.

    Examples
    --------
    >>> Affine(step_s=0.005, token_s=50e-6).to_wire()
    {'kind': 'affine', 'step': 5000000000, 'token': 50000000, 'kv_token': 0}
    """

    step_s: float
    token_s: float = 0.0
    kv_token_s: float = 0.0

    def __post_init__(self) -> None:
        wire = self.to_wire()
        if not (wire["step"] or wire["token"]):
            raise ConfigError("step_s and token_s of an Affine must not both be 0 ps: a step must take time")

    def to_wire(self) -> dict[str, Any]:
        """Return the cost as the engine reads it: the prices in ticks."""
        return {
            "kind": "affine",
            "step": ticks(self.step_s, "step_s"),
            "token": ticks(self.token_s, "token_s"),
            "kv_token": ticks(self.kv_token_s, "kv_token_s"),
        }

    def to_toml(self) -> str:
        """Return the model as the text of a TOML file."""
        return dump(cost_to_table(self))

    @classmethod
    @typed()
    def from_toml(cls, text: str) -> Affine:
        """Read what :meth:`to_toml` wrote."""
        return cls.from_table(parse(text, "a cost"), "a cost")

    @classmethod
    @typed()
    def from_table(cls, content: Mapping[str, Any], what: str) -> Affine:
        """Read a table of kind ``affine``; ``what`` names the table in errors."""
        return build(cls, fields_of(content, "affine", what), what)
