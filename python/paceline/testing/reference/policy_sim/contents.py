"""Which full blocks of which requests hold the same tokens."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from paceline.testing.reference.blocks import blocks_for
from paceline.testing.reference.policy_sim.request import TraceRequest


class Contents:
    """Names what the full blocks of a trace's requests hold; equal names, equal tokens.

    A trace says what prompts share in one of two ways. With ids of a prompt's leading blocks, two prompts
    share a block if all ids up to its end are equal. With sessions, the prompt of a turn starts with all
    tokens of the turns before; a prompt shorter than that starts a new conversation. All other blocks belong
    to their request alone.

    Parameters
    ----------
    requests : sequence of TraceRequest
    block_tokens : int
        Tokens in a block of the engine.
    trace_block_tokens : int
        Tokens in a block of the trace's ids; one of the two divides the other.

    Examples
    --------
    >>> both = [TraceRequest(0, 8, 4, prefix=(1, 2)), TraceRequest(0, 8, 4, prefix=(1, 3))]
    >>> contents = Contents(both, block_tokens=2, trace_block_tokens=4)
    >>> [contents.name(0, position) == contents.name(1, position) for position in range(4)]
    [True, True, False, False]
    """

    def __init__(self, requests: Sequence[TraceRequest], block_tokens: int, trace_block_tokens: int) -> None:
        self._requests = requests
        self._block_tokens = block_tokens
        self._trace_block_tokens = trace_block_tokens
        self._has_ids = any(request.prefix for request in requests)
        self._conversation = _conversations(requests)

    def name(self, row: int, position: int) -> Hashable:
        """Name what the full block at a position of a request holds."""
        request = self._requests[row]
        if not self._has_ids and self._conversation[row] is not None:
            return "session", self._conversation[row], position
        if position < request.prompt_tokens // self._block_tokens:
            covered = blocks_for((position + 1) * self._block_tokens, self._trace_block_tokens)
            if covered <= len(request.prefix):
                return "ids", request.prefix[:covered], position
        return "own", row, position

    def is_own(self, row: int, position: int) -> bool:
        """Whether no other request can have what the full block at a position of a request holds."""
        return self.name(row, position) == ("own", row, position)


def _conversations(requests: Sequence[TraceRequest]) -> list[int | None]:
    """Return the conversation of each request, as the row of its first turn."""
    first: dict[int, int] = {}
    said: dict[int, int] = {}
    found: list[int | None] = []
    for row, request in enumerate(requests):
        session = request.session
        if session is not None:
            if request.prompt_tokens < said.get(session, request.prompt_tokens + 1):
                first[session] = row
            said[session] = request.prompt_tokens + request.output_tokens
        found.append(None if session is None else first[session])
    return found
