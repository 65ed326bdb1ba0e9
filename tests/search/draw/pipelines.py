"""Several batches in the stages of an instance."""

from __future__ import annotations

from search.draw import ranking, stages
from search.draw.expressions import Wire
from search.draw.source import Source


def prepare(source: Source, instance: Wire) -> None:
    """Make an instance one that can have several batches: its scheduler decides steps as they start."""
    scheduler = instance["scheduler"]
    instance.pop("speculation", None)
    scheduler.pop("receive_interval", None)
    cached = scheduler["prefix_cache"] is not None
    kinds = {stage["kind"] for stage in scheduler["stages"]}
    others = kinds - {"running", "prefills", "decodes", "admit"}
    if others or any(stage.get("sits_out") for stage in scheduler["stages"]):
        scheduler["stages"] = [stages.RUNNING, stages.admit(source, chunked=True, gathers=False)]
        scheduler["exclusive_prefill"] = False
    if not source.chance(0.97):
        return
    if scheduler["order"]["kind"] not in ("arrival", "priority", "longest_prefix"):
        scheduler["order"] = ranking.unranked(source, cached=cached)
    scheduler |= {
        "admission": {"kind": "wait"},
        "preemption": {"kind": "recompute"},
        "schedule_ahead": False,
        "drop_unseen": False,
        "unseen_ends": False,
        "decodes_first": False,
        "output_reserve": None,
        "prompt_batch": None,
    }


def pipeline(source: Source, instance: Wire) -> None:
    """Give an instance stages, and batches in them."""
    instance["pipeline"] = {
        "stages": [source.pick((1, 1, 1, 2, 5)) for _ in range(source.pick((1, 2, 2, 3, 4)))],
        "batches": source.pick((1, 2, 2, 3, 4, 6)),
        "empty_batches": source.chance(0.5),
    }
