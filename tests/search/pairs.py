"""Cases that have two mechanisms together, drawn more often than chance has them.

A store below a tree occurs in one of a hundred cases, and beside steps that are decided ahead in one of a
thousand. So every second case is drawn until it has both mechanisms of a pair, each pair as often as the
others.
"""

from __future__ import annotations

from itertools import combinations

from search import case
from search.case import Case
from search.draw.source import Source
from search.mechanisms import drawn

MECHANISMS = (
    *("admission: displace", "allocation: chunk_if_output_fits", "clients: limited"),
    *("clients: parents", "cost: graphs", "decodes: sits_out", "flag: decodes_first"),
    *("flag: drop_unseen", "flag: exclusive_prefill", "flag: output_reserve", "flag: prompt_batch"),
    *("flag: receive_interval", "flag: schedule_ahead", "flag: spare_block"),
    *("flag: unseen_ends", "flag: whole_block_chunks", "handover", "handover: overlap", "handover: reserve"),
    *("joining: adapters", "joining: prefills", "levels", "lockstep", "migrate: live", "pipeline"),
    *("lockstep: balance", "lockstep: groups"),
    *("quantum", "preemption: overlapped copies", "preemption: swap", "prefix cache: queued alike"),
    "preemption: swap beside a reserve",
    *("prefix cache: tree", "routers: report_every", "scale", "speculation"),
    *(
        "speculation: drops_last_block",
        "speculation: two_steps",
        "stage: layered",
        "stage: select",
        "store",
        "tier",
    ),
    *("tier: of a tree, write back", "tier: of a tree, write selective"),
    *("tier: of a tree, write through", "tier: write back", "tier: write through", "until"),
)
PAIRS = tuple(combinations(MECHANISMS, 2))
TRIES = 100
"""The most draws for a case: some pairs exclude each other, and the last draw is the case."""
KEPT = 5000
"""The latest draws of which another may be a case later."""


class Pairs:
    """Draws cases, every second one with a pair of mechanisms.

    Parameters
    ----------
    seed
        Another seed draws other cases.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._unused: dict[str, set[str]] = {}

    def draw(self, number: int) -> Case:
        """Draw a case: the same for the same seed and numbers so far."""
        if number % 2 == 0:
            return case.draw(self._seed, number)
        pair = set(Source(f"{self._seed}:{number}: pair").pick(PAIRS))
        # To draw one takes a millisecond, as long as to look at thousands that did not have the pairs before.
        for name, mechanisms in self._unused.items():
            if pair <= mechanisms:
                del self._unused[name]
                return case.draw(self._seed, name)
        for attempt in range(TRIES):
            name = f"{number}:{attempt}"
            found = case.draw(self._seed, name)
            mechanisms = drawn(found)
            if pair <= mechanisms:
                break
            self._unused[name] = mechanisms
        self._unused.pop(name, None)
        while len(self._unused) > KEPT:
            del self._unused[next(iter(self._unused))]
        return found
