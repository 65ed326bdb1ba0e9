"""Simple features of a prompt: its size and shape, and what it asks for in numbers.

Each is a number of the order of 1, so that one penalty fits all. The names are part of a saved model: a model
made with other names is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["NAMES", "simple_features"]

NAMES: Final = (
    "log_characters",
    "log_words",
    "log_lines",
    "one_line",
    "blank_line",
    "digits",
    "symbols",
    "capitals",
    "word_characters",
    "questions",
    "quotes",
    "first_line_words",
    "ends_with_question",
    "ends_with_colon",
    "asks_words",
    "asks_sentences",
    "asks_paragraphs",
    "asks_items",
    "log_asked_amount",
    "short_answer",
    "choices",
    "code",
    "starts_with_question_word",
)

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
    return np.hstack([_shape(prompts, texts), np.array([_asks(text) for text in texts], dtype=np.float32)])


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
