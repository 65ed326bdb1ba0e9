"""Why measured points are not modelled: equal reasons are counted together, in whatever data they stand."""

from __future__ import annotations

__all__ = [
    "APART",
    "ATTENTION_PARALLEL",
    "DRAFTS",
    "MIXED_EXPERTS",
    "UNKNOWN_RANKS",
    "WIDE",
    "NotModelled",
]

APART = "prefill and decode apart, on instances that the data do not describe"
ATTENTION_PARALLEL = "attention data parallelism"
DRAFTS = "drafts tokens (MTP), of an acceptance that the data do not have"
MIXED_EXPERTS = "experts that are both split and dealt out"
UNKNOWN_RANKS = f"{ATTENTION_PARALLEL}, of ranks that the data do not describe"
WIDE = "more than eight GPUs an instance, of whose exchanges no tables are imported"


class NotModelled(Exception):
    """A point cannot be modelled; the message says why."""
