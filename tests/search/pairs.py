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


def draw(seed: int, number: int) -> Case:
    """Draw a case: the same for the same seed and number."""
    if number % 2 == 0:
        return case.draw(seed, number)
    pair = set(Source(f"{seed}:{number}: pair").pick(PAIRS))
    for attempt in range(TRIES):
        found = case.draw(seed, f"{number}:{attempt}")
        if pair <= drawn(found):
            break
    return found
