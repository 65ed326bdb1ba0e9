"""Speculative decoding on an instance."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from paceline import _check
from paceline._arguments import typed_fields
from paceline.errors import ConfigError, PacelineWarning
from paceline.hardware import Gpu
from paceline.model import Model
from paceline.speculation.acceptance import MOST_DRAFTS, AcceptanceLength, ByPosition, Listed
from paceline.speculation.column import FromColumn
from paceline.speculation.draft import Draft

__all__ = ["Speculation"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields(but=("acceptance", "proposals", "draft"))
class Speculation:
    """How an instance drafts tokens and verifies them, as vLLM 0.33.0 schedules it.

    A request that has yielded a token has drafts proposed. Its next step computes them beside its last
    token, costs as many tokens of the budget and of KV, and yields the accepted drafts and one token more.
    Drafts are cut by the budget, the limit of a chunk and the longest sequence, and are lost then. The slots
    of rejected drafts stay with the request.

    Parameters
    ----------
    tokens
        Drafts of a request in a step, ``num_speculative_tokens`` of vLLM.
    acceptance
        Which drafts are accepted: :class:`AcceptanceLength`, :class:`ByPosition`, :class:`Listed` or
        :class:`FromColumn`.
    method
        What proposes them. ``"eagle"`` (also EAGLE-3), ``"mtp"`` and ``"draft_model"`` allocate ``tokens``
        further slots for the drafter's KV; ``"ngram"`` none. A draft model takes an input slot of the budget
        for each scheduled request. With a prefix cache, the hash of a block covers the token after it for
        ``"eagle"`` and ``"mtp"``.
    tokens_by_batch
        Pairs of a number of requests and a number of drafts: after a step of that many requests or more, so
        many drafts are proposed. Empty: always ``tokens``.
    proposals
        For ``"ngram"``: how many drafts are found, as a :class:`Listed`. None: always ``tokens``.
    drops_last_block
        Whether a hit in the prefix cache loses its last block instead (vLLM's
        ``disable_lookahead_block_hashes``). For ``"eagle"`` and ``"mtp"`` it does so beside a tier of KV, as
        beside each KV connector of vLLM.
    pads
        Whether a request that is admitted with one token to compute is padded with drafts that are never
        accepted, as vLLM does for its CUDA graphs. Not with ``tokens_by_batch``.
    draft
        The draft model or head, for its time and memory. None: drafts take none, as those of ``"ngram"``; of
        the other methods that is warned of. ``Draft(cost=Affine(step_s=1e-12))`` takes next to no time.

    Raises
    ------
    ConfigError
        If a value is out of range, or two do not fit together.

    Warns
    -----
    PacelineWarning
        If a model or a head proposes the drafts, and there is no `draft`: what comes out is too fast.

    Examples
    --------
    >>> eagle = Speculation(tokens=3, acceptance=AcceptanceLength(2.4), draft=Draft())
    >>> eagle.lookahead, eagle.acceptance.to_wire()["yields"]
    (3, [2, 2, 3, 2, 3])
    """

    tokens: int
    acceptance: AcceptanceLength | ByPosition | Listed | FromColumn
    method: Literal["eagle", "mtp", "draft_model", "ngram"] = "eagle"
    tokens_by_batch: tuple[tuple[int, int], ...] = ()
    proposals: Listed | None = None
    drops_last_block: bool = False
    pads: bool = True
    draft: Draft | None = None

    def __post_init__(self) -> None:
        _check.count("tokens of a Speculation", self.tokens, most=MOST_DRAFTS, why="no method proposes more")
        rules = AcceptanceLength | ByPosition | Listed | FromColumn
        if not isinstance(self.acceptance, rules):
            raise ConfigError(
                "acceptance of a Speculation must be an AcceptanceLength, a ByPosition, a Listed or a "
                f"FromColumn, was {_check.said(self.acceptance)}"
            )
        self.acceptance.check(self.tokens)
        for name, value, kind in (("proposals", self.proposals, Listed), ("draft", self.draft, Draft)):
            if value is not None and not isinstance(value, kind):
                raise ConfigError(
                    f"{name} of a Speculation must be a {kind.__name__}, was {_check.said(value)}"
                )
        if self.proposals is not None and self.method != "ngram":
            raise ConfigError(
                f"proposals of a Speculation must be None unless method is ngram, was {self.method!r}"
            )
        if self.draft is not None and self.method == "ngram":
            raise ConfigError("draft of a Speculation must be None if method is ngram: a lookup has no model")
        self._check_batches()
        if self.has_drafter and self.draft is None:
            warnings.warn(
                f"drafts of method {self.method!r} take no time and no memory without a draft: give "
                "draft=Draft(), or method='ngram' if they are looked up",
                PacelineWarning,
                stacklevel=3,
            )

    def _check_batches(self) -> None:
        pairs = self.tokens_by_batch
        rises = all(before[0] < after[0] for before, after in pairwise(pairs))
        if pairs and (
            pairs[0][0] != 1 or not rises or any(not 0 <= most <= self.tokens for _, most in pairs)
        ):
            raise ConfigError(
                "tokens_by_batch of a Speculation must begin at 1 request, rise, and have 0 to "
                f"{self.tokens} drafts, was {pairs}"
            )

    @property
    def has_drafter(self) -> bool:
        """Whether a model or a head proposes the drafts."""
        return self.method != "ngram"

    @property
    def lookahead(self) -> int:
        """Slots allocated past the tokens of a step, for the drafter's KV."""
        return self.tokens if self.has_drafter else 0

    def to_wire(
        self,
        model: Model | None = None,
        gpu: Gpu | None = None,
        *,
        tensor_parallel: int = 1,
        kv_dtype: str = "auto",
        tiered: bool = False,
        two_steps: bool = False,
    ) -> dict[str, Any]:
        """Return the speculation as the engine reads it.

        Parameters
        ----------
        model, gpu, tensor_parallel, kv_dtype
            The target's, by which a draft is priced.
        tiered
            Whether chunks of prefixes are kept in a tier.
        two_steps
            Whether decodes have slots for two steps (``Scheduler(draft_slots="two_steps")``).
        """
        heads = self.method in ("eagle", "mtp")
        drops = self.drops_last_block or (heads and tiered)
        draft = self.draft
        cost = None
        if draft is not None:
            cost = draft.to_wire(model, gpu, tensor_parallel=tensor_parallel, kv_dtype=kv_dtype)
        return {
            "tokens": self.tokens,
            "by_batch": [list(pair) for pair in self.tokens_by_batch],
            "proposals": None if self.proposals is None else self.proposals.to_list(),
            "acceptance": self.acceptance.to_wire(),
            "lookahead": self.lookahead,
            **({"slots": "two_steps"} if two_steps else {}),
            "input_slots": int(self.method == "draft_model" and not two_steps),
            "hash_lookahead": int(heads and not drops),
            "drops_last_block": drops,
            "pads": self.pads and not self.tokens_by_batch and not two_steps,
            "draft": cost,
        }
