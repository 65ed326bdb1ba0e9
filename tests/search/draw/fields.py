"""All fields of expressions, each with a way to draw a constant near its values."""

from __future__ import annotations

from collections.abc import Callable

from search.draw.source import Source

TICKS_PER_SECOND = 10**12

Near = Callable[[Source], float]
Fields = dict[str, Near]


def _tokens(source: Source) -> float:
    return source.whole(0, 60)


def _count(source: Source) -> float:
    return source.whole(0, 4)


def _few(source: Source) -> float:
    return source.whole(0, 2)


def _flag(source: Source) -> float:
    return source.whole(0, 1)


def _blocks(source: Source) -> float:
    return source.whole(0, 30)


def _span(source: Source) -> float:
    return source.ticks(-20, 150) / TICKS_PER_SECOND


def _moment(source: Source) -> float:
    return source.ticks(0, 600) / TICKS_PER_SECOND


def _share(source: Source) -> float:
    return source.pick((0.0, 0.25, 0.5, 0.9))


STEADY: Fields = {
    "req.arrival_s": _moment,
    "req.joined_s": _moment,
    "req.prompt_tokens": _tokens,
    "req.phase": _few,
    "req.priority": _few,
    "req.score": _few,
    "req.tenant": _few,
    "req.preemptions": _count,
    "req.prefill_s": _span,
    "oracle.output_tokens": _tokens,
    "oracle.reasoning_tokens": _tokens,
    "req.quanta": _count,
    "req.running": _flag,
}
DRIFTING: Fields = {
    "req.generated_tokens": _tokens,
    "req.context_tokens": _tokens,
    "req.kv_tokens": _tokens,
    "req.blocks": _blocks,
    "req.age_s": _span,
    "req.waiting_s": _span,
    "req.idle_steps": _count,
    "req.attained_s": _span,
    "req.slack_s": _span,
    "oracle.remaining_tokens": _tokens,
}
OF_REQUEST: Fields = {**STEADY, **DRIFTING}
# A field that is reset when a class is entered has no meaning in that class's condition.
IN_CLASSES: Fields = {
    name: near for name, near in OF_REQUEST.items() if name not in ("req.joined_s", "req.quanta")
}
OF_INSTANCE: Fields = {
    "kv_tokens": _tokens,
    "gpu_kv_tokens": _tokens,
    "cpu_kv_tokens": _tokens,
    "free_blocks": _blocks,
    "total_blocks": _blocks,
    "block_tokens": _count,
    "free_cpu_blocks": _blocks,
    "kv_usage": _share,
    "running": _count,
    "waiting": _count,
    "swapped": _count,
    "requests": _count,
    "reasoning_requests": _count,
    "answering_requests": _count,
    "fresh_answering_requests": _count,
    "class_requests": _count,
    "answering_on_pace": _flag,
    "running_tokens": _tokens,
    "outstanding_tokens": _tokens,
    "mean_token_interval_s": _span,
    "prefill_delay_s": _span,
    "waiting_blocks": _blocks,
    "head_blocks": _blocks,
    "role": _few,
    "index": _count,
}
ABOUT_A_REQUEST: Fields = {"fits": _flag, "prefill_s": _span, "prefix_tokens": _tokens}
CANDIDATE: Fields = {**OF_INSTANCE, **ABOUT_A_REQUEST}


def subject(fields: Fields, *names: str) -> Fields:
    """Return fields of instances as fields of `inst`, `here` or `there`."""
    return {f"{name}.{field}": near for name in names for field, near in fields.items()}
