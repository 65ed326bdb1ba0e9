"""OpenTelemetry's spans of generative AI.

OTLP as JSON (``resourceSpans``), one document or one a line, as the collector's file exporter writes it;
and the flat spans of inference-perf's examples (``trace_id``, ``spans``). A call is a span that generates:
``chat``, ``text_completion``, ``generate_content``. A call that only wraps another one, as of an agent's
framework around the client's, is dropped and counted. ``gen_ai.usage.*`` give the lengths, in their
deprecated names too; ``gen_ai.response.time_to_first_chunk`` and the span's length are kept as
``measured_ttft`` and ``measured_e2e``.

With dependent arrivals, a call waits for the calls that it could have needed (:mod:`paceline.trace.spans`).
A ``session`` is a chain of calls each of which waited for the one before alone and continues its messages;
spans without messages continue if the prompt is at least as long as the prompt and the answer before.
``conversation`` is ``gen_ai.conversation.id``, ``session.id`` or the trace.

If a span has no counts but texts, its lengths are estimated at four characters a token, with a warning: the
texts' tokenizer is not known. Not in the format: prefixes, priorities and where the call was served.
Source: github.com/open-telemetry/semantic-conventions-genai, docs/registry/attributes/gen-ai.md; OTLP 1.x's
JSON encoding; github.com/kubernetes-sigs/inference-perf, examples/otel.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from paceline.errors import TraceError, TraceWarning
from paceline.trace.calls import SECOND, Call, calls_parsed
from paceline.trace.detection import Recognised
from paceline.trace.documents import read_objects
from paceline.trace.formats.otel_texts import continues, messages_of, tokens_of
from paceline.trace.parsed import Parsed
from paceline.trace.rows import Rows
from paceline.trace.spans import Span, link_spans

__all__ = ["read_otel"]

_GENERATING: Final = frozenset({"chat", "text_completion", "generate_content", "completion"})
_CONVERSATION: Final = ("gen_ai.conversation.id", "session.id", "exgentic.session.id")
_INPUT: Final = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
_OUTPUT: Final = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
_INPUT_TEXT: Final = ("gen_ai.input.messages", "gen_ai.prompt")
_OUTPUT_TEXT: Final = ("gen_ai.output.messages", "gen_ai.output.text", "gen_ai.completion")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class _Value(msgspec.Struct):
    stringValue: str | None = None
    intValue: int | str | None = None
    doubleValue: int | float | str | None = None
    boolValue: bool | None = None


class _Attribute(msgspec.Struct):
    key: str
    value: _Value | None = None


class _OtlpSpan(msgspec.Struct):
    traceId: str
    spanId: str
    startTimeUnixNano: int | str
    endTimeUnixNano: int | str
    parentSpanId: str | None = None
    attributes: list[_Attribute] | None = None


class _FlatSpan(msgspec.Struct):
    span_id: str
    start_time: datetime
    end_time: datetime
    trace_id: str | None = None
    parent_span_id: str | None = None
    attributes: dict[str, Any] | None = None


class _Scope(msgspec.Struct):
    spans: list[_OtlpSpan] = []


class _Resource(msgspec.Struct):
    scopeSpans: list[_Scope] = []


class _Document(msgspec.Struct):
    resourceSpans: list[_Resource] | None = None
    spans: list[_FlatSpan] | None = None
    trace_id: str | None = None


def read_otel(found: Recognised, name: str) -> Parsed:
    """Read spans of generative AI."""
    objects, rows = read_objects(found, name, _Document)
    spans: list[Span] = []
    for row, document in enumerate(objects):
        for place, span in _spans(document, rows, row):
            span.row, span.place = row, place
            span.generates = _generates(span.attributes)
            spans.append(span)
    waits, wrappers = link_spans(spans, _groups(spans), rows, found.limits)
    chosen = [at for at, span in enumerate(spans) if span.generates and at not in wrappers]
    if not chosen:
        raise TraceError(
            f"{name}: has no span that generates; gen_ai.operation.name must be one of "
            f"{', '.join(sorted(_GENERATING))}, of {len(spans)} spans"
        )
    position = {at: number for number, at in enumerate(chosen)}
    calls = [_call(spans[at]) for at in chosen]
    estimated = sum(call.kept.pop("estimated") for call in calls)
    for at, call in zip(chosen, calls, strict=True):
        call.waits = [position[parent] for parent in waits[at]]
    _add_sessions(calls, [spans[at] for at in chosen])
    dropped = {"wrapper of another call": len(wrappers)} if wrappers else {}
    detail = ""
    if estimated:
        detail = f"lengths of {estimated} of {len(calls)} calls estimated from texts"
        warnings.warn(f"{name}: {detail}, at four characters a token", TraceWarning, stacklevel=2)
    dependent = found.choices.waits(name, stamped=True)
    return calls_parsed(calls, rows, found.limits, waits=dependent, detail=detail, dropped=dropped)


def _spans(document: _Document, rows: Rows, row: int) -> Iterator[tuple[str, Span]]:
    """Return the spans of a document with their places in it."""
    if document.resourceSpans is None and document.spans is None:
        raise TraceError(f"{rows.locate(row)}: must have resourceSpans or spans")
    number = 0
    for resource in document.resourceSpans or []:
        for scope in resource.scopeSpans:
            for otlp in scope.spans:
                place = f", span {number}"
                number += 1
                where = rows.locate(row) + place
                yield (
                    place,
                    Span(
                        trace=otlp.traceId,
                        id=otlp.spanId,
                        parent=otlp.parentSpanId or None,
                        start=_nano(otlp.startTimeUnixNano, "startTimeUnixNano", where),
                        end=_nano(otlp.endTimeUnixNano, "endTimeUnixNano", where),
                        attributes={
                            attribute.key: _value(attribute.value) for attribute in otlp.attributes or []
                        },
                    ),
                )
    for flat in document.spans or []:
        yield (
            f", span {number}",
            Span(
                trace=flat.trace_id or document.trace_id or "",
                id=flat.span_id,
                parent=flat.parent_span_id or None,
                start=_ns(flat.start_time),
                end=_ns(flat.end_time),
                attributes=flat.attributes or {},
            ),
        )
        number += 1


def _nano(value: int | str, name: str, where: str) -> int:
    if isinstance(value, str) and not (value.isascii() and value.isdigit() and len(value) <= 20):
        raise TraceError(f"{where}: {name} must be nanoseconds since 1970, was {value[:60]!r}")
    number = int(value)
    if not 0 <= number < 2**63:
        raise TraceError(f"{where}: {name} must be from 0 to 2**63 - 1, was {number}")
    return number


def _ns(stamp: datetime) -> int:
    """Return nanoseconds since 1970; a stamp without a zone is UTC."""
    aware = stamp if stamp.tzinfo is not None else stamp.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1) * 1000


def _value(value: _Value | None) -> Any:  # noqa: ANN401
    if value is None:
        return None
    given = (value.intValue, value.doubleValue, value.stringValue, value.boolValue)
    return next((one for one in given if one is not None), None)


def _generates(attributes: dict[str, Any]) -> bool:
    operation = attributes.get("gen_ai.operation.name")
    if operation is not None:
        return operation in _GENERATING
    return any(name in attributes for name in (*_INPUT, *_OUTPUT))


def _groups(spans: list[Span]) -> list[str]:
    """Return the conversation of each span: the first that a span of its trace names, or the trace."""
    known: dict[str, str] = {}
    for span in spans:
        named = next((span.attributes[key] for key in _CONVERSATION if span.attributes.get(key)), None)
        if named is not None:
            known.setdefault(span.trace, str(named))
    return [known.get(span.trace, span.trace) for span in spans]


def _call(span: Span) -> Call:
    attributes = span.attributes
    prompt, prompt_is_estimated = tokens_of(attributes, _INPUT, _INPUT_TEXT)
    output, output_is_estimated = tokens_of(attributes, _OUTPUT, _OUTPUT_TEXT)
    first = attributes.get("gen_ai.response.time_to_first_chunk")
    kept = {
        "measured_ttft": first if isinstance(first, int | float) else None,
        "measured_e2e": max(0, span.end - span.start) / SECOND,
        "measured_cached_tokens": tokens_of(attributes, ("gen_ai.usage.cache_read.input_tokens",), ())[0],
        "measured_model": attributes.get("gen_ai.response.model") or attributes.get("gen_ai.request.model"),
        "conversation": span.group,
        "estimated": prompt_is_estimated or output_is_estimated,
    }
    return Call(
        row=span.row,
        place=span.place,
        start=span.start,
        end=max(span.start, span.end),
        prompt=prompt or 0,
        output=output or 0,
        reasoning=tokens_of(attributes, ("gen_ai.usage.reasoning.output_tokens",), ())[0],
        id=span.id,
        kept=kept,
    )


def _add_sessions(calls: list[Call], spans: list[Span]) -> None:
    """Give calls that continue the one they waited for its session, and others one of their own."""
    counts: dict[str, int] = {}
    continued: set[int] = set()
    for at in sorted(range(len(calls)), key=lambda at: (calls[at].start, at)):
        call, span = calls[at], spans[at]
        parent = call.waits[0] if len(call.waits) == 1 else None
        if parent is not None and parent not in continued and spans[parent].group == span.group:
            before = messages_of(spans[parent].attributes, _INPUT_TEXT)
            grown = call.prompt >= calls[parent].prompt + calls[parent].output
            if continues(before, messages_of(span.attributes, _INPUT_TEXT), otherwise=grown):
                continued.add(parent)
                call.agent = calls[parent].agent
                continue
        count = counts[span.group] = counts.get(span.group, 0) + 1
        call.agent = span.group if count == 1 else f"{span.group}/{count}"
