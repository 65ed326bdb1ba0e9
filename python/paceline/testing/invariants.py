"""The invariants of a finished replay, each as a generator of its violations.

Numbers and statements are those of `docs/invariants.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from paceline.result.stats import InstanceStats
from paceline.testing.rows import Bools, Floats, Rows, times
from paceline.testing.violation import BrokenInvariant

__all__ = ["CHECKS"]

Broken = Iterator[BrokenInvariant]

_MOMENTS = ("arrival", "scheduled", "first_token", "finish")


def _rows(number: int, statement: str, broken: Bools, at: Floats, rows: Rows, *shown: str) -> Broken:
    """Yield a violation for each row that is broken, showing some of its columns."""
    for row in np.flatnonzero(broken).tolist():
        values = rows.frame.select(shown).row(row, named=True)
        found = ", ".join(f"{name} {value!r}" for name, value in values.items())
        time = float(at[row])
        yield BrokenInvariant(number, statement, found, request=row, time_s=None if np.isnan(time) else time)


def moments(rows: Rows) -> Broken:
    """INV-1: moments are in order."""
    for earlier, later in pairwise(_MOMENTS):
        before, after = rows.seconds(earlier), rows.seconds(later)
        broken = (np.isnan(before) & ~np.isnan(after)) | (after < before)
        yield from _rows(1, f"{earlier} <= {later}", broken, after, rows, earlier, later)
    last = rows.seconds("finish")
    late = last > rows.end_s + rows.slack_s
    yield from _rows(1, f"finish <= the end of the replay, {rows.end_s!r}", late, last, rows, "finish")
    first, gap, gaps = rows.seconds("first_token"), rows.seconds("max_itl"), rows.count("output_tokens") - 1
    decoding, several = last - first, ~np.isnan(last) & (gaps > 0)
    outside = several & ~((gap <= decoding + rows.slack_s) & (decoding <= gap * gaps + rows.slack_s * gaps))
    statement = "max_itl <= finish - first_token <= max_itl * (output_tokens - 1)"
    yield from _rows(1, statement, outside, last, rows, "first_token", "finish", "max_itl", "output_tokens")


def tokens(rows: Rows) -> Broken:
    """INV-2: tokens are conserved."""
    generated, wanted = rows.count("generated_tokens"), rows.count("output_tokens")
    finish, first = rows.seconds("finish"), rows.seconds("first_token")
    finished = rows.status("finished")
    # The last token may come in the step in which it is cancelled.
    short = ((generated == wanted) & ~rows.status("cancelled")) != finished
    columns = ("status", "generated_tokens", "output_tokens")
    yield from _rows(2, "all output_tokens exactly when finished", short, finish, rows, *columns)
    yield from _rows(2, "at most output_tokens", generated > wanted, finish, rows, *columns)
    unseen = (generated > 0) != ~np.isnan(first)
    columns = ("status", "generated_tokens", "first_token")
    yield from _rows(2, "a first token exactly when any was generated", unseen, first, rows, *columns)
    itl, firsts = rows.result.itl, int(np.sum(~np.isnan(first)))
    # Each time that a request was sent again, it may have had a first token before.
    wasted, again = int(rows.count("wasted_tokens").sum()), int(rows.count("sent_again").sum())
    tokens = int(generated.sum()) + wasted
    if not itl.count + firsts <= tokens <= itl.count + firsts + min(wasted, again):
        found = f"{tokens} tokens, {itl.count} gaps, {firsts} first tokens, sent again {again} times"
        yield BrokenInvariant(2, "generated tokens = gaps + first tokens", found)


def accounting(rows: Rows) -> Broken:
    """INV-3: every request is accounted for."""
    arrival, finish = rows.seconds("arrival"), rows.seconds("finish")
    finished, rejected = rows.status("finished"), rows.status("rejected")
    ended = finished != ~np.isnan(finish)
    yield from _rows(3, "finished exactly with a finish", ended, arrival, rows, "status", "finish")
    cancelled = rows.status("cancelled")
    reasoned = (rejected | cancelled) != rows.frame["reason"].is_not_null().to_numpy()
    statement = "rejected or cancelled exactly with a reason"
    yield from _rows(3, statement, reasoned, arrival, rows, "status", "reason")
    at = rows.seconds("cancelled_at")
    unsaid = (cancelled == np.isnan(at)) | (at < arrival - rows.slack_s)
    yield from _rows(3, "cancelled at a moment from when it was sent", unsaid, arrival, rows, "status")
    placed = rows.frame["instance"].is_not_null().to_numpy()
    unplaced = rows.status("not_arrived", "held", "gave_up")
    lost = (rows.status("finished", "running", "waiting") & ~placed) | (unplaced & placed)
    yield from _rows(3, "served where it was routed to", lost, arrival, rows, "status", "instance")
    if rows.setting("until") is None:
        left = ~(finished | rejected | cancelled | rows.status("gave_up"))
        left &= ~(rows.unanswered & rows.status("not_arrived"))
        yield from _rows(3, "finished or rejected where time does not run out", left, arrival, rows, "status")
    preemptions = rows.count("preemptions")
    for where, here, indices in rows.groups():
        served = [rows.instances[index] for index in indices]
        for name, by_rows, counted in (
            ("finished", int(np.sum(finished & here)), sum(of.finished for of in served)),
            ("preemptions", int(preemptions[here].sum()), sum(of.preemptions for of in served)),
        ):
            # The columns are those of the last time that a request was sent.
            if by_rows > counted or (by_rows < counted and (name == "finished" or not rows.sent_again)):
                found = f"{by_rows} and {counted} on {where}"
                yield BrokenInvariant(3, f"{name} of the requests = {name} of their instance", found)


def blocks(rows: Rows) -> Broken:
    """INV-4: blocks are conserved; INV-8: no request is served that cannot fit."""
    sequence = rows.count("prompt_tokens") + rows.count("output_tokens")
    finished, finish = rows.status("finished"), rows.seconds("finish")
    for index, of in enumerate(rows.instances):
        if of.peak_blocks > of.blocks:
            found = f"{of.peak_blocks} of {of.blocks} on instance {index}"
            yield BrokenInvariant(4, "blocks held <= blocks there are", found)
        held, room = of.kv_token_ticks, of.peak_blocks * of.block_tokens * rows.stats.end_ticks
        # If prefixes are shared, a token in the cache counts for each request that reads it.
        if rows.counter(index, "prefix_hits") == 0 and held > room:
            found = f"{held / room:.6f} of it on instance {index}" if room else f"{held} token-ticks of none"
            yield BrokenInvariant(4, "tokens held <= what the peak of blocks holds", found)
        # The last token is never written to the cache.
        large = finished & rows.on(index) & (sequence - 1 > of.blocks * of.block_tokens)
        statement = f"a sequence fits the {of.blocks} blocks of {of.block_tokens} tokens that served it"
        yield from _rows(8, statement, large, finish, rows, "prompt_tokens", "output_tokens", "instance")


def work(rows: Rows) -> Broken:
    """INV-10: no instance idles while it has work."""
    arrival, finish = rows.seconds("arrival") + rows.before_instance_s, rows.seconds("finish")
    # Ranks that step together wait for each other.
    waits = "gather" in rows.result.provenance.policy or "lockstep" in rows.result.provenance.cluster
    # A step may compute tokens of requests that have ended, and nothing else.
    overruns = "unseen_ends = true" in rows.result.provenance.policy
    for index, of in enumerate(rows.instances):
        busy, here = times(of.busy_ticks), rows.on(index)
        if of.busy_ticks > rows.stats.end_ticks:
            found = f"{busy!r} of {rows.end_s!r} s on instance {index}"
            yield BrokenInvariant(10, "busy time <= the time there was", found)
        if rows.moved or not rows.settled(index):
            continue
        present = _measure(arrival[here], finish[here])
        slack = rows.slack_s * (1 + int(here.sum()))
        waits_here = waits or bool(of.tier)
        if overruns:
            present = max(present, busy)
        if busy > present + slack or (busy < present - slack and not waits_here):
            found = f"{busy!r} s of {present!r} s on instance {index}"
            yield BrokenInvariant(10, "busy exactly while there is a request", found)


def _measure(starts: Floats, ends: Floats) -> float:
    """Return the length of the union of intervals."""
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    reached = np.concatenate(([-np.inf], np.maximum.accumulate(ends)[:-1])) if len(ends) else ends
    return float(np.sum(np.maximum(0.0, ends - np.maximum(starts, reached))))


def sketch(rows: Rows) -> Broken:
    """INV-11: a sketch keeps its relative error."""
    itl = rows.result.itl
    if itl.count == 0:
        return
    low, high = itl.min_ticks or 0, itl.max_ticks or 0
    if not low * itl.count <= itl.sum_ticks <= high * itl.count:
        found = f"{low} x {itl.count}, {itl.sum_ticks}, {high} x {itl.count}"
        yield BrokenInvariant(11, "count * min <= sum <= count * max", found)
    longest = rows.seconds("max_itl")
    most = float(np.nanmax(longest)) if np.any(~np.isnan(longest)) else 0.0
    # A longer one may be of a request before it was sent again.
    if most > times(high) + rows.slack_s or (most < times(high) - rows.slack_s and not rows.sent_again):
        found = f"{times(high)!r} and {most!r} s"
        yield BrokenInvariant(11, "the longest gap of all = the longest gap of a request", found)


def latencies(rows: Rows) -> Broken:
    """INV-12: latencies are differences of moments."""
    at = {name: rows.seconds(name) for name in _MOMENTS}
    gaps: NDArray[np.int64] = rows.count("output_tokens") - 1
    decoding = np.where(gaps > 0, at["finish"] - at["first_token"], np.nan) / np.maximum(gaps, 1)
    e2e = at["finish"] - at["arrival"]
    for name, formula, value in (
        ("queueing", "scheduled - arrival", at["scheduled"] - at["arrival"]),
        ("ttft", "first_token - arrival", at["first_token"] - at["arrival"]),
        ("tpot", "(finish - first_token) / (output_tokens - 1)", decoding),
        ("e2e", "finish - arrival", e2e),
        ("normalized_latency", "e2e / output_tokens", e2e / (gaps + 1)),
    ):
        given = rows.seconds(name)
        same = (np.isnan(given) & np.isnan(value)) | (np.abs(given - value) <= rows.slack_s)
        yield from _rows(12, f"{name} = {formula}", ~same, at["arrival"], rows, name, *_MOMENTS)


def presence(rows: Rows) -> Broken:
    """INV-13: the time of requests is the time of instances."""
    e2e, queueing, transfer = (rows.seconds(name) for name in ("e2e", "queueing", "transfer"))
    # A request is with no instance before the router has sent it there.
    e2e, queueing = e2e - rows.before_instance_s, queueing - rows.before_instance_s
    for where, here, indices in rows.groups():
        if not all(rows.settled(index) for index in indices):
            continue
        served = [rows.instances[index] for index in indices]
        here = here & ~np.isnan(e2e)
        slack = rows.slack_s * (1 + 2 * int(here.sum()))
        waiting = sum(of.waiting_ticks for of in served)
        spent = times(sum(of.running_ticks for of in served) + waiting)
        stayed = float(e2e[here].sum() - transfer[here].sum())
        if abs(spent - stayed) > slack:
            found = f"{spent!r} and {stayed!r} s on {where}"
            yield BrokenInvariant(
                13, "time running + time waiting = sum of e2e, but for time on the way", found
            )
        waited, queued = times(waiting), float(queueing[here].sum())
        stays = not rows.moved and all(of.preemptions == 0 for of in served)
        if waited < queued - slack or (stays and waited > queued + slack):
            found = f"{waited!r} and {queued!r} s on {where}"
            yield BrokenInvariant(13, "time waiting = sum of queueing, and more after preemptions", found)


def _loaded(of: InstanceStats) -> int:
    """Return the tokens that an instance loaded from its tier and did not compute again."""
    return of.tier.get("loaded_blocks", 0) * of.block_tokens - of.tier.get("whole_loads", 0)


def computed(rows: Rows) -> Broken:
    """INV-14: the computed tokens are those of the requests, and more only where KV was lost."""
    needed = rows.count("prompt_tokens") + rows.count("output_tokens") - 1
    for where, here, indices in rows.groups():
        if not all(rows.settled(index) for index in indices):
            continue
        served = [rows.instances[index] for index in indices]
        asked = int(needed[here & rows.status("finished")].sum())
        hits = sum(rows.counter(index, "prefix_hits") for index in indices)
        queries = sum(rows.counter(index, "prefix_queries") for index in indices)
        if hits > queries:
            yield BrokenInvariant(14, "tokens hit <= tokens looked up", f"{hits} of {queries}")
        did = sum(of.prefill_tokens + of.decode_tokens for of in served) + hits + sum(map(_loaded, served))
        lost = ("preemptions", "swap_overflows", "expired_offers")
        computes_once = all(rows.counter(index, name) == 0 for index in indices for name in lost)
        if did < asked or (computes_once and did > asked):
            found = f"{did} and {asked} on {where}"
            statement = "prefilled + decoded + hit + loaded = prompt + output - 1, and more where KV was lost"
            yield BrokenInvariant(14, statement, found)


CHECKS: tuple[Callable[[Rows], Broken], ...] = (
    moments,
    tokens,
    accounting,
    blocks,
    work,
    sketch,
    latencies,
    presence,
    computed,
)
"""The checks, by the numbers of their invariants."""
