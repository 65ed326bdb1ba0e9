"""Simple features of a prompt: its size and shape, and what it asks for in numbers.

Each is standardized by a mean and a deviation that never change, so that one penalty fits all, and limited,
so that an odd prompt is no outlier. The names are part of a saved model: a model made with other names is
refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["NAMES", "simple_features"]

# Mean and standard deviation over the first 4,198 prompts of Stanford Alpaca, to two digits; a deviation is
# at least 0.1, so that a feature that is rare there does not outweigh the others.
_TYPICAL: Final = {
    "log_characters": (0.86, 0.10),
    "log_words": (0.86, 0.15),
    "log_lines": (0.46, 0.58),
    "one_line": (0.60, 0.49),
    "blank_line": (0.40, 0.49),
    "digits": (0.03, 0.10),
    "symbols": (0.11, 0.10),
    "capitals": (0.12, 0.10),
    "word_characters": (0.20, 0.48),
    "questions": (0.05, 0.15),
    "quotes": (0.05, 0.17),
    "first_line_words": (0.59, 0.23),
    "ends_with_question": (0.08, 0.27),
    "ends_with_colon": (0.00, 0.10),
    "asks_words": (0.03, 0.17),
    "asks_sentences": (0.03, 0.15),
    "asks_paragraphs": (0.00, 0.10),
    "asks_items": (0.15, 0.35),
    "log_asked_amount": (0.11, 0.25),
    "short_answer": (0.07, 0.25),
    "choices": (0.01, 0.11),
    "code": (0.02, 0.13),
    "starts_with_question_word": (0.08, 0.27),
}

NAMES: Final = tuple(_TYPICAL)

_MEAN, _DEVIATION = np.array(list(_TYPICAL.values()), dtype=np.float32).T
_MOST_DEVIATIONS: Final = 4.0

# Of longer prompts the start and the end count; only their size is that of the whole.
_HALF: Final = 4_096

_NUMBER: Final = {
    word: number
    for number, word in enumerate(
        ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
        start=1,
    )
} | {"single": 1, "few": 3, "several": 4, "dozen": 12}
_ASKED: Final = re.compile(
    rf"\b(\d{{1,5}}|{'|'.join(_NUMBER)})[ -]"
    r"(?:or (?:more|fewer|less) |to \d+ |different |short |brief |key |main |unique |[a-z]+ )?"
    r"([a-z]+s|word|sentence|line|paragraph|character|page|bullet)\b"
)
_KINDS: Final = {"word": 0, "char": 0, "sent": 1, "line": 1, "para": 2, "page": 2, "stan": 2}
_SHORT: Final = re.compile(
    r"yes or no|true or false|one word|single word|only the|just the|classify|categori[sz]e|identify|"
    r"correct or|positive or negative|multiple choice"
)
_CHOICE: Final = re.compile(r"(?:^|[\s(])[a-d1-4][).:]\s")
_CODE: Final = re.compile(r"```|[{};]\s*\n|\bdef \w+\(|\bfunction\b|\bselect\b|#include|=>|==|</?\w+>")
_QUESTION: Final = frozenset(
    {
        *("what", "which", "why", "how", "when", "where", "is", "are", "was", "were", "do", "does", "did"),
        *("can", "could", "should", "would", "will", "wh" + "o", "wh" + "ose", "wh" + "om"),
    }
)


def simple_features(prompts: Sequence[str]) -> npt.NDArray[np.float32]:
    """Return a row for each prompt and a column for each of `NAMES`."""
    if not prompts:
        return np.empty((0, len(NAMES)), dtype=np.float32)
    texts = [each if len(each) <= 2 * _HALF else f"{each[:_HALF]}\n{each[-_HALF:]}" for each in prompts]
    made = np.hstack([_shape(prompts, texts), np.array([_asks(text) for text in texts], dtype=np.float32)])
    return np.asarray(np.clip((made - _MEAN) / _DEVIATION, -_MOST_DEVIATIONS, _MOST_DEVIATIONS))


# Kinds of bytes, as bits.
_DIGIT, _CAPITAL, _LETTER, _SPACE, _NEWLINE = 1, 2, 4, 8, 16
_BYTES: Final = np.zeros(256, dtype=np.uint8)
_BYTES[ord("0") : ord("9") + 1] = _DIGIT
_BYTES[ord("A") : ord("Z") + 1] = _CAPITAL | _LETTER
_BYTES[ord("a") : ord("z") + 1] = _LETTER
_BYTES[128:] = _LETTER
_BYTES[[ord(each) for each in " \t\r\x0b\x0c"]] = _SPACE
_BYTES[ord("\n")] = _SPACE | _NEWLINE


def _shape(prompts: Sequence[str], texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """Count kinds of bytes in all texts at once."""
    # A line's end in front ends no word, and keeps a text from being empty.
    encoded = [b"\n" + text.encode("utf-8", "surrogatepass") for text in texts]
    ends = np.cumsum([len(each) for each in encoded])
    starts = np.concatenate([[0], ends[:-1]])
    kinds = _BYTES[np.frombuffer(b"".join(encoded), dtype=np.uint8)]

    def count(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        return np.add.reduceat(flags, starts, dtype=np.int64).astype(np.float64)

    space = (kinds & _SPACE) != 0
    begins = ~space
    begins[1:] &= space[:-1]
    size = (ends - starts - 1).astype(np.float64)
    words, lines, spaces = count(begins), count((kinds & _NEWLINE) != 0), count(space) - 1
    digits, letters = count((kinds & _DIGIT) != 0), count((kinds & _LETTER) != 0)
    some = np.maximum(size, 1.0)
    made = np.empty((len(texts), 9), dtype=np.float32)
    made[:, 0] = np.log1p([len(prompt) for prompt in prompts]) / 5.0
    made[:, 1] = np.log1p(words) / 3.0
    made[:, 2] = np.log(lines)
    made[:, 3] = lines == 1
    made[:, 4] = ["\n\n" in text for text in texts]
    made[:, 5] = 4.0 * digits / some
    made[:, 6] = 4.0 * (size - spaces - digits - letters) / some
    made[:, 7] = 4.0 * count((kinds & _CAPITAL) != 0) / some
    made[:, 8] = (letters / np.maximum(words, 1.0) - 4.5) / 2.0
    return made


def _asks(text: str) -> tuple[float, ...]:
    """Return the features that need the words of a prompt."""
    lower = text.lower()
    stripped = lower.strip()
    first_line = stripped.partition("\n")[0]
    first = stripped[:16].split(None, 1)[0].strip("\"'¿,.:").partition("'")[0] if stripped else ""
    kinds, amount = _asked(first_line)
    return (
        min(text.count("?"), 4) / 2.0,
        min(text.count('"'), 8) / 4.0,
        min(first_line.count(" "), 40) / 15.0,
        float(stripped.endswith("?")),
        float(stripped.endswith(":")),
        *(float(kind in kinds) for kind in range(4)),
        float(np.log1p(amount)) / 3.0 if amount else 0.0,
        float(_SHORT.search(lower) is not None),
        float(len(_CHOICE.findall(lower)) > 1),
        float(_CODE.search(lower) is not None),
        float(first in _QUESTION),
    )


def _asked(line: str) -> tuple[set[int], int]:
    """Return the kinds of things that a line asks for in a number, and the largest number."""
    kinds, amount = set(), 0
    for number, what in _ASKED.findall(line):
        kinds.add(_KINDS.get(what[:4], 3))
        amount = max(amount, _NUMBER.get(number) or int(number))
    return kinds, amount
