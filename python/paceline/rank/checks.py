"""Checks of what rankers are given; a message names the row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from paceline import _check
from paceline._check import said
from paceline.errors import RankError

__all__ = [
    "checked_groups",
    "checked_lengths",
    "checked_progress",
    "checked_prompts",
    "checked_resamples",
    "numbered",
    "numbers",
]

_NUMBER_KINDS: Final = "biuf"
"""numpy's kinds of arrays that convert to float: bool, signed and unsigned integers, and floats."""

_MOST_RESAMPLES: Final = 1_000_000


def numbers(
    name: str,
    values: object,
    rule: Literal["a number", "a finite number", "a finite number above 0"] = "a finite number",
) -> npt.NDArray[np.float64]:
    """Return an argument as a one-dimensional array, or refuse the first row that breaks the rule.

    Parameters
    ----------
    name
        Of the argument, for the message.
    values
        A list, an array or a series of numbers.
    rule
        What each must be; a number is anything but NaN.

    Raises
    ------
    RankError
        The argument is not a one-dimensional array of numbers, or a row breaks the rule.

    Examples
    --------
    >>> numbers("lengths", [3, None])
    Traceback (most recent call last):
    paceline.errors.RankError: lengths, row 1: must be a finite number, was None
    """
    array = _array(name, values)
    if array.dtype.kind in _NUMBER_KINDS:
        found = array.astype(np.float64)
    else:
        for row, value in enumerate(array.tolist()):
            if not isinstance(value, float) and not _check.is_number(value):
                raise RankError(f"{name}, row {row}: must be {rule}, was {said(value)}")
        found = np.array([float(value) for value in array.tolist()], dtype=np.float64)
    bad = np.isnan(found) if rule == "a number" else ~np.isfinite(found)
    if rule == "a finite number above 0":
        bad |= found <= 0
    if bad.any():
        row = int(bad.argmax())
        raise RankError(f"{name}, row {row}: must be {rule}, was {found[row]:g}")
    return found


def numbered(name: str, values: object, samples: int) -> npt.NDArray[np.int64]:
    """Return a number for the name of each sample, from 0 in the order of the names.

    Raises
    ------
    RankError
        The argument is not a one-dimensional array of names, or there are more or fewer than the samples.

    Examples
    --------
    >>> numbered("groups", ["b", "a", "b"], 3).tolist()
    [1, 0, 1]
    """
    array = _array(name, values, of="names", such_as="['a', 'b']")
    if len(array) != samples:
        raise RankError(f"{name} must be one for each of {samples} samples, was {len(array)}")
    if array.dtype.kind == "O":
        for row, value in enumerate(array.tolist()):
            if not isinstance(value, str | int | float):
                raise RankError(f"{name}, row {row}: must be a string or a number, was {said(value)}")
        array = np.array([value if isinstance(value, str) else said(value) for value in array.tolist()])
    return np.unique(array, return_inverse=True)[1].astype(np.int64)


def checked_prompts(prompts: Sequence[object]) -> list[str]:
    """Return the prompts as a list, or refuse the first that is empty or no text."""
    if isinstance(prompts, str):
        raise RankError(f"prompts must be a list of texts, was one text, {said(prompts)}")
    if isinstance(prompts, Mapping | set) or not all(
        hasattr(prompts, name) for name in ("__iter__", "__len__")
    ):
        raise RankError(f"prompts must be a list of texts, was {said(prompts)}")
    texts = []
    for row, text in enumerate(prompts):
        if not isinstance(text, str) or not text.strip():
            raise RankError(f"prompts, row {row}: must be a text that is not empty, was {said(text)}")
        texts.append(text)
    return texts


def checked_lengths(lengths: npt.ArrayLike, samples: int) -> npt.NDArray[np.float64]:
    """Return the lengths as numbers, or refuse the first that is not finite and above 0."""
    values = numbers("lengths", lengths, "a finite number above 0")
    if len(values) != samples:
        raise RankError(f"lengths must be one for each of {samples} prompts, was {len(values)}")
    return values


def checked_groups(groups: Sequence[object] | npt.NDArray[Any] | None, samples: int) -> npt.NDArray[np.int64]:
    """Return a number for the group of each sample; all are group 0 if there are none."""
    return np.zeros(samples, dtype=np.int64) if groups is None else numbered("groups", groups, samples)


def checked_progress(progress: object) -> None:
    """Refuse what cannot be called with the steps done and those of all."""
    if progress is not None and not callable(progress):
        raise RankError(f"progress must be a function of (done, total) or None, was {said(progress)}")


def checked_resamples(resamples: int) -> None:
    """Refuse anything but a number of resamples that fits in memory."""
    why = "each is kept, for the interval"
    _check.count("resamples", resamples, most=_MOST_RESAMPLES, why=why, error=RankError)


def _array(
    name: str, values: object, *, of: str = "numbers", such_as: str = "[1.0, 2.5]"
) -> npt.NDArray[Any]:
    """Return a one-dimensional array; of objects if numpy has no other type for the values."""
    array = None
    if not isinstance(values, str | bytes | Mapping | set | frozenset):
        try:
            array = np.asarray(values)
            if array.dtype.kind not in _NUMBER_KINDS:
                array = np.array(values, dtype=object)  # numpy makes strings of [3, "a"]
        except (TypeError, ValueError):  # such as lists of different lengths
            array = None
    if array is None or array.ndim != 1:
        shape = "" if array is None or not array.ndim else f" of shape {array.shape}"
        raise RankError(f"{name} must be a list of {of}, such as {such_as}, was {said(values)}{shape}")
    return array
