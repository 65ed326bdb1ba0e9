"""Why measured points are not modelled: equal reasons are counted together, in whatever data they stand."""

from __future__ import annotations

__all__ = [
    "APART",
    "APART_RANKS",
    "ATTENTION_PARALLEL",
    "DRAFTS",
    "MIXED_EXPERTS",
    "WIDE",
    "NotModelled",
]

APART = "prefill and decode apart, on instances that the data do not describe"
ATTENTION_PARALLEL = "attention data parallelism"
APART_RANKS = f"{ATTENTION_PARALLEL}, with prefill and decode apart"
DRAFTS = "drafts tokens (MTP), of an acceptance that the data do not have"
MIXED_EXPERTS = "experts that are both split and dealt out"
WIDE = "more than eight GPUs an instance, over a network that the data do not describe"


class NotModelled(Exception):
    """A point cannot be modelled; the message says why."""
