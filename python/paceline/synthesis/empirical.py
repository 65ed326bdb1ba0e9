"""Lengths drawn with replacement from real ones."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

import numpy as np

from paceline._arguments import typed
from paceline.errors import ConfigError, TraceError
from paceline.limits import Limits
from paceline.synthesis.lengths import Tokens
from paceline.synthesis.stable import Floats
from paceline.trace.columns import Values, tokens
from paceline.trace.delimited import read_delimited
from paceline.trace.detection import header
from paceline.trace.model import Trace
from paceline.trace.opening import content
from paceline.trace.schema import TOKENS_LIMIT

__all__ = ["Empirical", "Sample"]

_PROMPT: Final = ("prompt_tokens", "num_prefill_tokens", "ContextTokens", "Request tokens", "input_length")
_OUTPUT: Final = ("output_tokens", "num_decode_tokens", "GeneratedTokens", "Response tokens", "output_length")


class Sample:
    """Counts drawn with replacement from a list of them.

    Parameters
    ----------
    counts
        Whole numbers of at least 1, any number of them.

    Examples
    --------
    >>> Sample([5, 100]).tokens(np.array([0.1, 0.9])).tolist()
    [5, 100]
    """

    __slots__ = ("counts",)

    counts: Tokens

    @typed()
    def __init__(self, counts: Values) -> None:
        given = np.asarray(counts)
        if given.ndim != 1 or len(given) == 0 or given.dtype.kind not in "iu":
            raise ConfigError(f"counts must be a list of at least one whole number, was {counts!r}")
        if given.min() < 1 or given.max() >= TOKENS_LIMIT:
            msg = f"counts must be from 1 to {TOKENS_LIMIT - 1:,}, was {given.min()} to {given.max()}"
            raise ConfigError(msg)
        self.counts = given.astype(np.uint32)
        self.counts.flags.writeable = False

    @typed()
    def tokens(self, u: Floats) -> Tokens:
        """Give the count at place floor(u n) of the list."""
        chosen: Tokens = self.counts[places(u, len(self.counts))]
        return chosen

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sample) and np.array_equal(self.counts, other.counts)

    def __hash__(self) -> int:
        return hash(self.counts.tobytes())

    def __repr__(self) -> str:
        digest = hashlib.sha256(self.counts.tobytes()).hexdigest()[:12]
        return f"Sample({len(self.counts)} counts, mean {self.counts.mean():.1f}, sha256 {digest})"


class Empirical:
    """Pairs of prompt and output tokens drawn with replacement, so that their correlation is kept.

    Parameters
    ----------
    prompt_tokens, output_tokens
        Whole numbers of at least 1, as many of one as of the other.

    Attributes
    ----------
    prompt_tokens, output_tokens
        Each side on its own, as a `Sample`.
    """

    __slots__ = ("output_tokens", "prompt_tokens")

    prompt_tokens: Sample
    output_tokens: Sample

    @typed()
    def __init__(self, prompt_tokens: Values, output_tokens: Values) -> None:
        self.prompt_tokens = Sample(prompt_tokens)
        self.output_tokens = Sample(output_tokens)
        prompts, outputs = len(self.prompt_tokens.counts), len(self.output_tokens.counts)
        if prompts != outputs:
            raise ConfigError(
                f"prompt_tokens and output_tokens must be as many, were {prompts} and {outputs}"
            )

    @classmethod
    @typed()
    def from_trace(cls, trace: Trace) -> Empirical:
        """Take the lengths of a trace."""
        return cls(trace.frame.get_column("prompt_tokens"), trace.frame.get_column("output_tokens"))

    @classmethod
    @typed()
    def from_csv(cls, path: str | Path, *, prompt: str | None = None, output: str | None = None) -> Empirical:
        """Take the lengths of a CSV file, plain, gzip or zstd; it needs no arrivals.

        Parameters
        ----------
        path
            The file.
        prompt, output
            Its columns of lengths; by default those named as in Paceline's schema or as in Vidur's, Azure's
            or BurstGPT's files. Rows without output are passed over.

        Raises
        ------
        TraceError
            The file has no such columns, or a length is no whole number of at least 0 (1 for prompts).
        """
        path = Path(path)
        limits = Limits.current()
        text, columns = header(content(path, limits=limits), str(path), limits)
        table, rows = read_delimited(text, str(path), columns, limits)
        sides = []
        for named, known in ((prompt, _PROMPT), (output, _OUTPUT)):
            wanted = (named,) if named is not None else known
            present = [column for column in wanted if column in columns]
            if not present:
                was = ", ".join(columns)[:200]
                raise TraceError(f"{path}, line 1: missing {' or '.join(wanted)}; was {was!r}")
            sides.append(tokens(table.get_column(present[0]), rows))
        prompts, outputs = sides
        kept = outputs > 0
        empty = kept & (prompts < 1)
        if empty.any():
            row = empty.arg_max()
            assert row is not None
            raise TraceError(f"{rows.locate(row)}: {prompts.name} must be at least 1, was 0")
        if not kept.any():
            raise TraceError(f"{path}: has no row with output")
        return cls(prompts.filter(kept), outputs.filter(kept))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Empirical):
            return NotImplemented
        return self.prompt_tokens == other.prompt_tokens and self.output_tokens == other.output_tokens

    def __hash__(self) -> int:
        return hash((self.prompt_tokens, self.output_tokens))

    def __repr__(self) -> str:
        return f"Empirical({self.prompt_tokens!r}, {self.output_tokens!r})"


def places(u: Floats, count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Give floor(u count), kept below `count` where the product rounds up to it."""
    return np.minimum((u * float(count)).astype(np.int64), count - 1)
