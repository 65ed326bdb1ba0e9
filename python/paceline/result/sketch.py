"""Loading a saved sketch of the gaps between tokens, with a check of its numbers.

The engine does not check a sketch: one with contradicting numbers would give wrong quantiles, or end the
process. A checksum only says that a file is as it was written.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Final

import msgspec

from paceline import _core
from paceline.errors import ResultError
from paceline.result.outcome import Sketch

__all__ = ["read_sketch"]

# The layout of rust/core/src/metrics/sketch.rs: every power of two in 2**7 buckets.
_SUB_BITS: Final = 7
_MOST_TICKS: Final = 2**64 - 1
_MOST_SQUARES: Final = 2**128 - 1

_Digits = Annotated[str, msgspec.Meta(pattern=r"^(0|[1-9][0-9]{0,38})$")]
_Natural = Annotated[int, msgspec.Meta(ge=0)]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    buckets: list[tuple[_Natural, Annotated[int, msgspec.Meta(ge=1)]]]
    count: _Natural
    sum: _Digits
    sum_of_squares: _Digits
    min: _Natural
    max: _Natural


def read_sketch(text: bytes, name: str) -> Sketch:
    """Build the sketch that `Sketch.to_json` wrote.

    Parameters
    ----------
    text
        The file's content.
    name
        Its name in errors.

    Raises
    ------
    ResultError
        If it is not such a file, or its numbers contradict each other; the message says which.
    """
    try:
        file = msgspec.json.decode(text, type=_File)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ResultError(f"{name}: not a sketch: {error}; save the result again") from error
    rule = _broken_rule(file)
    if rule:
        raise ResultError(f"{name}: {rule}; save the result again")
    try:
        return _core.Sketch.from_json(text)
    except ValueError as error:
        raise ResultError(f"{name}: not a sketch: {error}; save the result again") from error


def _broken_rule(file: _File) -> str | None:
    """Return the rule that a sketch breaks, with the values; None if it breaks none."""
    total, squares = int(file.sum), int(file.sum_of_squares)
    indices = [index for index, _ in file.buckets]
    held = sum(weight for _, weight in file.buckets)
    if held != file.count:
        return f"count must be the sum over buckets, {held:,}, was {file.count:,}"
    if file.count == 0:
        empty = (file.min, file.max, total, squares) == (0, 0, 0, 0)
        return None if empty else "min, max, sum and sum_of_squares of nothing must be 0"
    if file.min > file.max:
        return f"min must be at most max, was {file.min:,} and {file.max:,}"
    if file.max > _MOST_TICKS or file.count > _MOST_TICKS:
        return f"max and count must be below 2**64, were {file.max:,} and {file.count:,}"
    if any(later <= former for former, later in pairwise(indices)):
        return "buckets must be in order, each once"
    ends = (_bucket(file.min), _bucket(file.max))
    if (indices[0], indices[-1]) != ends:
        return f"buckets must run from that of min to that of max, {ends}, were {(indices[0], indices[-1])}"
    if not file.count * file.min <= total <= file.count * file.max:
        return f"sum must lie between count times min and count times max, was {total:,}"
    least = min(-(-total * total // file.count), _MOST_SQUARES)
    if not least <= squares <= min(file.count * file.max**2, _MOST_SQUARES):
        return f"sum_of_squares must fit to count, sum and max, was {squares:,}"
    return None


def _bucket(ticks: int) -> int:
    """Return the bucket that holds a number of ticks."""
    if ticks < 1 << _SUB_BITS:
        return ticks
    shift = ticks.bit_length() - 1 - _SUB_BITS
    return (shift << _SUB_BITS) + (ticks >> shift)
