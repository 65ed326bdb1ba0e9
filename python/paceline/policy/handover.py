"""How a request that migrates takes memory on the instance to which it migrates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from paceline._arguments import typed, typed_fields
from paceline._clock import TICKS_PER_SECOND
from paceline.errors import PolicyError
from paceline.policy.checks import duration, whole
from paceline.policy.value import Value

__all__ = ["Handover"]

Overlap: TypeAlias = Literal["none", "layers"]
Offered: TypeAlias = Literal["prefilled", "arrival"]


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Handover(Value):
    """Hand a request over with its KV: the target allocates blocks before the KV is sent.

    A request that migrates leaves the batch of its source, whose blocks stay
    allocated until the last byte is read. Its target accepts such requests in
    order, between two steps, once a seat and blocks for their next step are free,
    less the blocks that its prefix cache has. Then it reads the KV that it lacks.
    A request whose KV has been received holds its blocks and is admitted ahead of
    the waiting queue.

    Parameters
    ----------
    most_transfers
        The most transfers to one target at once; None: any number.
    most_held
        The share of a target's blocks, above 0 and at most 1. No request is
        accepted while requests that have not had their first step there hold that
        share or more; None: no limit.
    lease
        Seconds after which the source frees the blocks of a request that was not
        accepted. Its target computes the KV anew. None: never.
    overlap
        ``"layers"``: a request whose instance for decode is picked as it arrives
        (``decode_on_arrival``) is offered to it as the last step of its prompt starts,
        and the KV of each layer is sent once that step has computed it. ``"none"``: a
        request is offered, and its KV sent, once its prefill has ended.
    offer
        ``"arrival"``: a request is offered as it arrives to the instance that is picked for its
        decode (``decode_on_arrival``). Its prompt is queued once that has blocks for it, so that
        prompts wait where memory for their decodes is short, and no KV waits for its target.
        ``"prefilled"``: a request is offered as ``overlap`` says.
    reserve_tokens
        Tokens that an acceptance leaves free for each request that runs on the target or
        was accepted there, and for the one that is accepted; at least so many that the
        longest of those that run could finish if the others gave theirs. Then each accepted
        request takes a seat, and blocks for its KV alone. None: nothing is left.
        It reads the lengths of outputs, so the policy then uses an oracle.
    reserve_clip
        The most tokens of an output that count in that.

    Raises
    ------
    PolicyError
        If a value is out of range.

    Examples
    --------
    >>> Handover(most_transfers=1, most_held=0.05).to_wire()
    {'most_transfers': 1, 'most_held': 0.05, 'lease': 480000000000000, 'overlap': 'none'}

    Notes
    -----
    Sources: vLLM's NIXL connector (0.33.0, ``kv_connector/v1/nixl``): the decode
    instance allocates blocks for the whole prompt when it comes to the request, in
    the order of its queue, pulls what its own prefix cache lacks, and the prefill
    instance frees the blocks once they are read or after
    ``VLLM_NIXL_ABORT_REQUEST_TIMEOUT``, 480 s by default. DistServe (82831f16,
    ``decoding_stage_scheduler.py``): one transfer at a time, none while blocks of
    waiting requests are 5 % of the pool or more, no lease:
    ``Handover(most_transfers=1, most_held=0.05, lease=None)``. Layer by layer: vLLM's
    ``P2pNcclConnector`` (02dc4a14, ``p2p_nccl_connector.py``), whose proxy picks both
    instances as a request arrives, and Splitwise (section 4.3), for prompts longer
    than a threshold: ``Handover(lease=None, overlap="layers")``. Systems that send each
    chunk of a prompt as soon as it is computed, as Mooncake and SGLang do, begin
    earlier than this.
    """

    most_transfers: int | None = None
    most_held: float | None = None
    lease: float | None = 480.0
    overlap: Overlap = "none"
    offer: Offered = "prefilled"
    reserve_tokens: int | None = None
    reserve_clip: int = 4096

    def __post_init__(self) -> None:
        if self.most_transfers is not None:
            whole("most_transfers of a Handover", self.most_transfers)
        if self.most_held is not None and not 0 < self.most_held <= 1:
            raise PolicyError(
                f"most_held of a Handover must be a share above 0 and at most 1, was {self.most_held!r}"
            )
        if self.lease is not None:
            duration("lease of a Handover", self.lease, least=1e-9)
        if self.overlap not in get_args(Overlap):
            raise PolicyError(f"overlap of a Handover must be 'none' or 'layers', was {self.overlap!r}")
        if self.reserve_tokens is not None:
            whole("reserve_tokens of a Handover", self.reserve_tokens, least=0)
        whole("reserve_clip of a Handover", self.reserve_clip)

    @typed(PolicyError)
    def to_wire(self, ticks_per_s: float = TICKS_PER_SECOND) -> dict[str, Any]:
        """Return the rules as the engine reads them, in ticks."""
        reserve = {"tokens": self.reserve_tokens, "clip": self.reserve_clip}
        return {
            "most_transfers": self.most_transfers,
            "most_held": self.most_held,
            "lease": None if self.lease is None else round(self.lease * ticks_per_s),
            "overlap": self.overlap,
            **({} if self.offer == "prefilled" else {"offer": self.offer}),
            **({} if self.reserve_tokens is None else {"reserve": reserve}),
        }
