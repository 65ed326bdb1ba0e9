"""The numbered invariants of one replay, in whole ticks.

`paceline.testing.invariants` checks the same for any user's result, in seconds. Here times are the engine's
own columns and exact, so that no comparison needs a tolerance.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from search.oracle import clients
from search.oracle.failure import Failure
from search.oracle.replayed import (
    CANCELLED,
    FINISHED,
    GAVE_UP,
    NEVER,
    NOT_ARRIVED,
    NOWHERE,
    REJECTED,
    Replayed,
)

ENDED = (FINISHED, REJECTED, GAVE_UP, CANCELLED)


class Table:
    """A replay's columns as lists, with None for times that were not reached."""

    def __init__(self, replayed: Replayed) -> None:
        case = replayed.case
        self.config, self.replayed = case.config, replayed
        self.count = len(case.requests)
        self.arrival = replayed.sent
        self.prompt = [row["prompt_tokens"] for row in case.requests]
        self.output = [row["output_tokens"] for row in case.requests]
        self.scheduled = self._times("scheduled")
        self.first = self._times("first_token")
        self.finish = self._times("finish")
        self.gap = self._times("max_itl")
        self.status = replayed.column("status")
        self.reason = replayed.column("reason")
        self.generated = replayed.column("generated_tokens")
        self.preemptions = replayed.counts("preemptions")
        self.instance = replayed.column("instance")
        self.migrations = replayed.column("migrations") or [0] * self.count
        self.transfer = replayed.column("transfer") or [0] * self.count
        held, accepted = (replayed.column(name) or [0] * self.count for name in ("held", "acceptance_wait"))
        self.held = [one + other for one, other in zip(held, accepted, strict=True)]
        self.cancelled = self._times("cancelled_at") or [None] * self.count
        self.retries = replayed.column("sent_again") or [0] * self.count
        self.wasted = replayed.column("wasted_tokens") or [0] * self.count
        self.stats = replayed.stats
        self.usage: list[dict[str, Any]] = self.stats["instances"]
        self.end: int = self.stats["end_ticks"]
        self.waits_for = clients.waits_for(case.requests)

    def _times(self, name: str) -> list[int | None]:
        return [None if value == NEVER else value for value in self.replayed.column(name)]

    def broken(self, number: int, statement: str, row: int | None, **found: Any) -> Failure:
        where = "" if row is None else f"row {row}: "
        shown = ", ".join(f"{name} {value!r}" for name, value in found.items())
        return Failure(f"INV-{number}: {statement}", where + shown)

    def unanswered(self, row: int) -> bool:
        """Whether a request waits for an answer that does not come."""
        return any(self.status[before] != FINISHED for before, _ in self.waits_for[row])

    @property
    def moved(self) -> bool:
        return any(self.migrations) or any(one["sent"] for one in self.usage)

    def groups(self) -> list[tuple[list[int], list[dict[str, Any]]]]:
        """Return rows with the instances that served them: each instance's, or all where some moved."""
        if self.moved:
            return [([row for row in range(self.count) if self.instance[row] != NOWHERE], self.usage)]
        return [
            ([row for row in range(self.count) if self.instance[row] == index], [usage])
            for index, usage in enumerate(self.usage)
        ]

    def settled(self, rows: list[int]) -> bool:
        """Whether the columns of some rows are all that their instances did: they finished, sent once."""
        return all(self.status[row] == FINISHED for row in rows) and not any(self.retries)


def moments(table: Table) -> Iterator[Failure]:
    """INV-1: moments are in order."""
    for row in range(table.count):
        several = (table.arrival[row], table.scheduled[row], table.first[row], table.finish[row])
        for before, after in pairwise(several):
            if after is not None and (before is None or after < before):
                yield table.broken(1, "moments are in order", row, moments=several)
        first, finish = table.first[row], table.finish[row]
        if finish is not None and finish > table.end:
            yield table.broken(1, "nothing finishes after the end", row, finish=finish, end=table.end)
        gaps, longest = table.output[row] - 1, table.gap[row]
        if finish is None or first is None or gaps == 0:
            continue
        if longest is None or not longest <= finish - first <= longest * gaps:
            yield table.broken(
                1, "the longest gap fits the time of decoding", row, gap=longest, first=first, finish=finish
            )


def tokens(table: Table) -> Iterator[Failure]:
    """INV-2: tokens are conserved."""
    for row in range(table.count):
        made, wanted = table.generated[row], table.output[row]
        # The last token may come in the step in which it is cancelled.
        all_made = made == wanted and table.status[row] != CANCELLED
        if made > wanted or all_made != (table.status[row] == FINISHED):
            yield table.broken(
                2,
                "all tokens exactly when finished",
                row,
                generated=made,
                output=wanted,
                status=table.status[row],
            )
        if (made > 0) != (table.first[row] is not None):
            yield table.broken(2, "a first token exactly when one was made", row, generated=made)
    firsts = sum(first is not None for first in table.first)
    gaps = table.replayed.outcome.itl.count
    # Each time that a request was sent again, it may have had a first token before.
    made = sum(table.generated) + sum(table.wasted)
    if not gaps + firsts <= made <= gaps + firsts + min(sum(table.retries), sum(table.wasted)):
        yield table.broken(2, "tokens = gaps + first tokens", None, tokens=made, gaps=gaps, firsts=firsts)


def accounting(table: Table) -> Iterator[Failure]:
    """INV-3: every request is accounted for."""
    for row in range(table.count):
        status = table.status[row]
        if (status == FINISHED) != (table.finish[row] is not None):
            yield table.broken(3, "finished exactly with a finish", row, status=status)
        if (status in (REJECTED, CANCELLED)) != (table.reason[row] != 0):
            yield table.broken(3, "rejected or cancelled exactly with a reason", row, status=status)
        at = table.cancelled[row]
        if (status == CANCELLED) != (at is not None) or (at is not None and at < table.arrival[row]):
            yield table.broken(3, "cancelled from when it was sent", row, status=status, cancelled=at)
        placed = table.instance[row] != NOWHERE
        if (status < NOT_ARRIVED and not placed) or (status == NOT_ARRIVED and placed):
            yield table.broken(3, "served where it was routed to", row, status=status)
        unanswered = status == NOT_ARRIVED and table.unanswered(row)
        if table.config["until"] is None and not unanswered and status not in ENDED:
            yield table.broken(3, "all is finished where time does not run out", row, status=status)
    for rows, served in table.groups():
        finished = sum(table.status[row] == FINISHED for row in rows)
        counted = sum(one["finished"] for one in served)
        if finished != counted:
            yield table.broken(3, "finished by rows = by instances", None, rows=finished, usage=counted)
        gone = sum(table.status[row] == CANCELLED and table.instance[row] != NOWHERE for row in rows)
        counted = sum(one.get("cancelled", 0) for one in served)
        if counted < gone and table.config["until"] is None:
            yield table.broken(3, "cancelled by rows <= by instances", None, rows=gone, usage=counted)
        preempted = sum(table.preemptions[row] for row in rows)
        counted = sum(one["preemptions"] for one in served)
        # The columns are those of the last time that a request was sent.
        if preempted > counted or (preempted < counted and not any(table.retries)):
            yield table.broken(3, "preemptions by rows = by instances", None, rows=preempted, usage=counted)


def blocks(table: Table) -> Iterator[Failure]:
    """INV-4: blocks are conserved. INV-8: no request is served that cannot fit."""
    for index, used in enumerate(table.usage):
        if used["peak_blocks"] > used["blocks"]:
            yield table.broken(4, "blocks held <= blocks there are", None, **_some(used, "peak_blocks"))
        # Not only in steps: an admitted request may be in no step.
        room = used["peak_blocks"] * used["block_tokens"] * table.end
        # A request that migrates finds what the prefix cache of its target has, which is no hit of a prompt.
        cache = table.config["instances"][index]["scheduler"]["prefix_cache"] or {}
        # In a tree, requests that computed equal blocks beside each other share them from then on.
        shares = used["prefix_hits"] > 0 or table.moved or "tree" in cache
        if not shares and used["kv_token_ticks"] > room:
            yield table.broken(4, "tokens held <= the peak of blocks", None, instance=index, room=room)
        for step, record in enumerate(table.replayed.decisions[index] if table.replayed.record else ()):
            if not 0 <= record["free_blocks"] <= used["blocks"]:
                yield table.broken(4, "free blocks are some of all", None, instance=index, step=step)
                break
    for row in range(table.count):
        if table.status[row] != FINISHED or table.moved:
            continue
        used = table.usage[table.instance[row]]
        # The last token is never written to the cache.
        if table.prompt[row] + table.output[row] - 1 > used["blocks"] * used["block_tokens"]:
            yield table.broken(8, "a sequence fits where it was served", row, blocks=used["blocks"])


def trees_on_host(table: Table) -> Iterator[Failure]:
    """INV-4: blocks of a tree on the GPU and the host are conserved, at sampled moments and at the end."""
    timeline, count = table.replayed.timeline, len(table.usage)
    for index, used in enumerate(table.usage):
        tier, cache = used.get("tier"), table.config["instances"][index]["scheduler"]["prefix_cache"]
        if tier is None or "tree" not in cache:
            continue
        kept, store = tier["stored_blocks"] - tier["evicted_blocks"], used.get("store")
        # Nodes that a store below has been read for are evicted, too.
        read = 0 if store is None else store["read_blocks"]
        if not -read <= kept <= tier["peak_chunks"] <= tier["capacity"]:
            yield table.broken(4, "stored - evicted <= peak <= capacity", None, read=read, **tier)
        rows = timeline[2][index::count] if timeline else []
        for row in rows:
            held = row["kv_used_blocks"] + row["kv_cached_blocks"]
            if held > used["blocks"] or row["tier_chunks"] > tier["peak_chunks"]:
                yield table.broken(4, "blocks of a tree <= blocks there are", None, instance=index, **row)
                break
        exact = store is None
        if rows and (rows[-1]["tier_chunks"] != kept if exact else rows[-1]["tier_chunks"] < kept):
            yield table.broken(4, "chunks = stored - evicted", None, instance=index, kept=kept, **rows[-1])


def _some(used: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: used[name] for name in (*names, "blocks")}


def work(table: Table) -> Iterator[Failure]:
    """INV-10: no instance idles beside work."""
    waits = table.config["lockstep"] is not None or any(
        stage.get("gather") for one in table.config["instances"] for stage in one["scheduler"]["stages"]
    )
    for index, used in enumerate(table.usage):
        if used["busy_ticks"] > table.end:
            yield table.broken(10, "busy time <= the time there was", None, busy=used["busy_ticks"])
        rows = [row for row in range(table.count) if table.instance[row] == index]
        # Blocks that are reserved for a request which is called off are freed once its KV has come, and those
        # of one whose prompt waits elsewhere leave none for others.
        rules = table.config.get("handover") or {}
        reserves = rules.get("overlap") == "layers" or rules.get("offer") == "arrival"
        if table.moved or reserves or not table.settled(rows):
            continue
        present = _measure([(table.arrival[row] + table.held[row], table.finish[row] or 0) for row in rows])
        busy = used["busy_ticks"]
        # A step that is decided ahead may compute tokens of requests that have ended by then.
        one = table.config["instances"][index]
        drafts = one["scheduler"]["schedule_ahead"] and one.get("speculation") is not None
        overruns = drafts or one["scheduler"].get("unseen_ends", False)
        if (busy > present and not overruns) or (busy < present and not waits and not used.get("tier")):
            yield table.broken(10, "busy exactly while there is a request", None, busy=busy, present=present)


def _measure(spans: list[tuple[int, int]]) -> int:
    """Return the length of the union of spans."""
    total, reached = 0, 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def sketch(table: Table) -> Iterator[Failure]:
    """INV-11: a sketch keeps its word."""
    itl = table.replayed.outcome.itl
    if itl.count == 0:
        return
    least, most = itl.min_ticks or 0, itl.max_ticks or 0
    if not least * itl.count <= itl.sum_ticks <= most * itl.count:
        yield table.broken(11, "count * min <= sum <= count * max", None, sum=itl.sum_ticks)
    longest = max((gap for gap in table.gap if gap is not None), default=0)
    if most < longest or (most > longest and not any(table.retries)):
        yield table.broken(11, "the longest gap of all is a request's", None, all=most, requests=longest)
    sent_once = not any(table.retries)
    if sent_once and all(status in (FINISHED, REJECTED, NOT_ARRIVED) for status in table.status):
        decoding = sum((table.finish[row] or 0) - (table.first[row] or 0) for row in range(table.count))
        rejected = any(table.status[row] == REJECTED and table.generated[row] for row in range(table.count))
        if decoding != itl.sum_ticks and not rejected:
            yield table.broken(11, "the gaps' sum is all decoding", None, sum=itl.sum_ticks, rows=decoding)


def presence(table: Table) -> Iterator[Failure]:
    """INV-13: the time of requests is the time of instances."""
    for rows, served in table.groups():
        if not table.settled(rows):
            continue
        apart = sum(table.transfer[row] + table.held[row] for row in rows)
        e2e = sum((table.finish[row] or 0) - table.arrival[row] for row in rows) - apart
        waiting = sum(one["waiting_ticks"] for one in served)
        spent = sum(one["running_ticks"] for one in served) + waiting
        if spent != e2e:
            yield table.broken(13, "time running + waiting = sum of e2e", None, spent=spent, e2e=e2e)
        queued = sum((table.scheduled[row] or 0) - table.arrival[row] - table.held[row] for row in rows)
        stays = not table.moved and all(one["preemptions"] == 0 for one in served)
        if waiting < queued or (stays and waiting > queued):
            yield table.broken(13, "time waiting = sum of queueing", None, waiting=waiting, queued=queued)


def computed(table: Table) -> Iterator[Failure]:
    """INV-14: what is computed is what was asked for, and again after preemptions."""
    for rows, served in table.groups():
        if not table.settled(rows):
            continue
        asked = sum(table.prompt[row] + table.output[row] - 1 for row in rows)
        hits = sum(one["prefix_hits"] for one in served)
        if hits > sum(one["prefix_queries"] for one in served):
            yield table.broken(14, "tokens hit <= tokens looked up", None, hits=hits)
        did = sum(one["prefill_tokens"] + one["decode_tokens"] for one in served) + hits
        for one in served:
            tier = one.get("tier") or {"loaded_blocks": 0, "whole_loads": 0}
            did += tier["loaded_blocks"] * one["block_tokens"] - tier["whole_loads"]
        lost = ("preemptions", "swap_overflows", "expired_offers")
        once = all(one[name] == 0 for one in served for name in lost)
        if did < asked or (once and did > asked):
            yield table.broken(14, "computed + hit = prompt + output - 1", None, did=did, asked=asked)


CHECKS = (moments, tokens, accounting, blocks, trees_on_host, work, sketch, presence, computed)


def broken(replayed: Replayed) -> Iterator[Failure]:
    """Yield what breaks an invariant."""
    table = Table(replayed)
    for check in CHECKS:
        yield from check(table)
