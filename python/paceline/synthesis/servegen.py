"""ServeGen's description of a production workload: clients, each with its rates and lengths.

Reads what Alibaba published of a day of DeepSeek-R1 (Xiang et al., "ServeGen", arXiv:2505.09999; repository
alibaba/ServeGen, ``data/reason``). Each client has a file ``chunk-I-trace.csv`` of windows of ten minutes
(start, requests per second, coefficient of variation of the gaps, family of the gaps and its two parameters;
no header) and a file ``chunk-I-dataset.json`` of the distributions of ``input_tokens``, ``output_tokens`` and
``reason_ratio`` in each quarter of a day, as Python dictionaries in strings.

It is no trace but a recipe, so a trace is drawn from it, by a seed. What it leaves open is settled so:

- a window's gaps have the family and shape of its row, scaled to the row's rate: the fitted scales give other
  means (a half to over twice the rate's inverse at the 5th and 95th percentile);
- each window starts anew, and its first request comes after a gap;
- ``reason_ratio`` times the output, rounded, is reasoning. Where that is all, nothing is answered;
- lengths are drawn independently of each other, inside a client and a quarter of a day.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from paceline._arguments import typed, typed_fields
from paceline._fork import use
from paceline.errors import ConfigError, TraceError
from paceline.synthesis.arrivals import Gamma
from paceline.synthesis.numbers import is_whole
from paceline.synthesis.stable import Floats, exp, log
from paceline.synthesis.streams import Stream
from paceline.trace.model import Trace
from paceline.trace.opening import content
from paceline.trace.source import Source

__all__ = ["ServeGen", "read_servegen"]

_WINDOW_S: Final = 600
_NANOSECONDS: Final = 1e9
_FILE: Final = re.compile(r"chunk-(\d+)-(trace\.csv|dataset\.json)$")
_QUANTITIES: Final = ("input_tokens", "output_tokens", "reason_ratio")


@dataclass(frozen=True, slots=True)
class _Window:
    """Ten minutes of a client: where they start, the rate, and the gaps' family and shape."""

    start_s: int
    rate: float
    family: str
    shape: float


@dataclass(frozen=True, slots=True, eq=False)
class _Counts:
    """Values and the running sum of their probabilities."""

    values: npt.NDArray[np.float64]
    until: Floats

    def drawn(self, u: Floats) -> npt.NDArray[np.float64]:
        place = np.searchsorted(self.until, u * self.until[-1], side="right")
        chosen: npt.NDArray[np.float64] = self.values[np.minimum(place, len(self.values) - 1)]
        return chosen


@dataclass(frozen=True, slots=True, eq=False)
class _Client:
    windows: tuple[_Window, ...]
    lengths: tuple[tuple[int, dict[str, _Counts]], ...]

    def lengths_at(self, start_s: int) -> dict[str, _Counts]:
        return next(counts for since, counts in reversed(self.lengths) if since <= start_s)


@dataclass(frozen=True, slots=True, eq=False)
@typed_fields()
class ServeGen:
    """Clients of a production service, from which traces are drawn.

    Attributes
    ----------
    name
        What traces are called.
    clients
        By their number in the files.

    Examples
    --------
    >>> workload = read_servegen("servegen_deepseek-r1.tar.zst")    # doctest: +SKIP
    >>> workload.trace(start_s=0, span_s=600, seed=1)               # doctest: +SKIP
    <Trace 'servegen_deepseek-r1': 9,029 requests over 600.0 s>
    """

    name: str
    clients: dict[int, _Client]

    @property
    def span_s(self) -> int:
        """Seconds that the description covers."""
        return max(w.start_s for client in self.clients.values() for w in client.windows) + _WINDOW_S

    @typed()
    def rate_at(self, start_s: int) -> float:
        """Return the requests per second of all clients in the window that starts then."""
        return sum(w.rate for client in self.clients.values() for w in client.windows if w.start_s == start_s)

    @typed()
    def trace(self, *, start_s: int, span_s: int, seed: int) -> Trace:
        """Draw a trace of whole windows.

        Parameters
        ----------
        start_s, span_s
            Which part of the day, both multiples of 600.
        seed
            A whole number of at least 0. The same seed draws the same requests of a window, whatever other
            windows are drawn.

        Returns
        -------
        Trace
            With ``reasoning_tokens``, and the client's number as ``tenant``. Time starts at ``start_s``.

        Raises
        ------
        ConfigError
            If the span does not consist of windows of the description, or the seed is no whole number.
        TraceError
            If no client sends anything then.
        """
        use()
        self._check(start_s, span_s, seed)
        parts = [
            _drawn(number, client, window, seed).with_columns(pl.col("arrival") + (window.start_s - start_s))
            for number, client in sorted(self.clients.items())
            for window in client.windows
            if start_s <= window.start_s < start_s + span_s and window.rate > 0
        ]
        if not parts:
            raise TraceError(f"{self.name}: no client sends anything in [{start_s}, {start_s + span_s}) s")
        detail = f"ServeGen, start_s={start_s}, span_s={span_s}, seed={seed}"
        return Trace(pl.concat(parts), name=self.name, source=Source(kind="synthesis", detail=detail))

    def _check(self, start_s: int, span_s: int, seed: int) -> None:
        for name, value, least in (("start_s", start_s, 0), ("span_s", span_s, _WINDOW_S)):
            if not (is_whole(value) and value >= least and value % _WINDOW_S == 0):
                raise ConfigError(
                    f"{name} must be a multiple of {_WINDOW_S} of at least {least}, was {value}"
                )
        if start_s + span_s > self.span_s:
            raise ConfigError(f"start_s + span_s must be at most {self.span_s}, was {start_s + span_s}")
        if not (is_whole(seed) and seed >= 0):
            raise ConfigError(f"seed must be a whole number of at least 0, was {seed}")


@typed()
def read_servegen(path: str | Path) -> ServeGen:
    """Read ServeGen's description of a workload.

    Parameters
    ----------
    path
        The folder with a client's two files each, or a tar file of it, plain, gzip or zstd.

    Returns
    -------
    ServeGen
        What traces are drawn from.

    Raises
    ------
    FileNotFoundError
        If there is nothing.
    TraceError
        If no client is found, one of its files is missing, or a row is not as it should be; the message
        names the file and the row.
    """
    path = Path(path)
    texts = _texts(path)
    numbers = sorted({number for number, _ in texts})
    if not numbers:
        raise TraceError(f"{path}: must hold files chunk-I-trace.csv and chunk-I-dataset.json, held none")
    clients = {}
    for number in numbers:
        for kind in ("trace.csv", "dataset.json"):
            if (number, kind) not in texts:
                raise TraceError(f"{path}: missing chunk-{number}-{kind}")
        clients[number] = _Client(
            windows=_windows(texts[number, "trace.csv"], f"{path}: chunk-{number}-trace.csv"),
            lengths=_lengths(texts[number, "dataset.json"], f"{path}: chunk-{number}-dataset.json"),
        )
    return ServeGen(name=path.name.split(".")[0], clients=clients)


def _texts(path: Path) -> dict[tuple[int, str], str]:
    """Return the clients' files by number and kind, others left out."""
    found: dict[tuple[int, str], str] = {}
    if path.is_dir():
        for file in sorted(path.rglob("chunk-*")):
            if match := _FILE.search(file.name):
                try:
                    found[int(match[1]), match[2]] = content(file).decode()
                except UnicodeDecodeError as error:
                    raise TraceError(f"{file}: must be UTF-8 text: {error}") from error
        return found
    try:
        with tarfile.open(fileobj=io.BytesIO(content(path))) as archive:
            for member in archive:
                data = archive.extractfile(member) if member.isfile() else None
                if data is not None and (match := _FILE.search(member.name)):
                    found[int(match[1]), match[2]] = data.read().decode("utf-8")
    except (tarfile.TarError, EOFError, OverflowError, UnicodeError) as error:
        raise TraceError(f"{path}: must be a folder or a tar file: {error}") from error
    return found


def _rows(text: str, where: str) -> Iterator[tuple[int, list[str]]]:
    """Give each row of CSV with its number."""
    line = 0
    try:
        for line, row in enumerate(csv.reader(io.StringIO(text, newline="")), start=1):
            yield line, row
    except csv.Error as error:
        raise TraceError(f"{where}, after line {line}: is no valid CSV: {error}") from error


def _windows(text: str, where: str) -> tuple[_Window, ...]:
    windows = []
    for line, row in _rows(text, where):
        if not row:
            continue
        try:
            start, rate, _, family, shape, _ = row
            window = _Window(int(start), float(rate), family, float(shape))
        except ValueError as error:
            raise TraceError(
                f"{where}, line {line}: must be start,rate,cv,family,shape,scale, was {','.join(row)[:100]!r}"
            ) from error
        legal = window.rate == 0 or (window.family in ("Gamma", "Weibull") and window.shape > 0)
        if not (0 <= window.rate < math.inf and legal and window.start_s % _WINDOW_S == 0):
            raise TraceError(
                f"{where}, line {line}: must be a multiple of {_WINDOW_S}, a rate of at least 0 and, where "
                f"it is above 0, Gamma or Weibull with a shape above 0, was {','.join(row)[:100]!r}"
            )
        windows.append(window)
    return tuple(windows)


def _lengths(text: str, where: str) -> tuple[tuple[int, dict[str, _Counts]], ...]:
    try:
        quarters: dict[str, dict[str, str]] = json.loads(text)
        found = []
        for start, quantities in quarters.items():
            counts = {name: _counts(quantities[name]) for name in _QUANTITIES}
            found.append((int(start), counts))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise TraceError(
            f"{where}: must be an object of a window's start and {', '.join(_QUANTITIES)}, each a dictionary "
            f"of values and probabilities: {error}"
        ) from error
    return tuple(sorted(found, key=lambda quarter: quarter[0]))


def _counts(text: str) -> _Counts:
    # The text of a Python dictionary of numbers, ten times faster taken apart here than by ast.literal_eval.
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError(f"a distribution must be a dictionary in a string, was {text[:40]!r}")
    numbers = np.array(text[1:-1].replace(":", ",").split(",") if len(text) > 2 else [], dtype=np.float64)
    values, probabilities = numbers[0::2], numbers[1::2]
    if len(values) != len(probabilities) or not np.all(np.isfinite(numbers) & (numbers >= 0)):
        raise ValueError(f"values and probabilities must be finite and at least 0, was {text[:40]!r}")
    # Clients that send nothing in a quarter have no values there; bins that nothing fell into have 0.
    kept = probabilities > 0
    order = np.argsort(values[kept], kind="stable")
    return _Counts(values[kept][order], np.cumsum(probabilities[kept][order]))


def _drawn(number: int, client: _Client, window: _Window, seed: int) -> pl.DataFrame:
    """Draw the requests of a client in a window, their arrivals from the window's start."""
    counts = client.lengths_at(window.start_s)
    empty = [name for name in _QUANTITIES if len(counts[name].values) == 0]
    if empty:
        raise TraceError(
            f"client {number} sends {window.rate:g} requests/s from {window.start_s} s, but its {empty[0]} "
            "is empty there"
        )
    times = _times(window, seed, number)
    name = f"servegen {number} {window.start_s} "
    prompt, output, ratio = (
        counts[quantity].drawn(Stream(seed, name + quantity).uniforms(len(times))) for quantity in _QUANTITIES
    )
    output = np.maximum(output, 1.0)
    return pl.DataFrame(
        {
            "arrival": times,
            "prompt_tokens": np.maximum(prompt, 1.0).astype(np.uint32),
            "output_tokens": output.astype(np.uint32),
            "reasoning_tokens": np.rint(output * ratio).astype(np.uint32),
            "tenant": [f"client-{number}"] * len(times),
        },
        schema_overrides={"arrival": pl.Float64, "tenant": pl.String},
    )


def _times(window: _Window, seed: int, number: int) -> Floats:
    """Draw arrivals of one window, in whole nanoseconds."""
    count = int(window.rate * _WINDOW_S * 1.5) + 50
    while True:
        times = _process(window, count, seed, number)
        if times[-1] >= _WINDOW_S:
            kept = times[times < _WINDOW_S]
            return np.minimum(np.rint(kept * _NANOSECONDS) / _NANOSECONDS, _WINDOW_S - 1e-9)
        count *= 2


def _process(window: _Window, count: int, seed: int, number: int) -> Floats:
    # One number for the client and the window, so that no two of them share a stream.
    own = (seed << 64) + (number << 32) + window.start_s
    if window.family == "Gamma":
        return Gamma(cv=window.shape**-0.5).times(count, window.rate, own)
    gaps = exp(log(-log(Stream(own, "arrival").uniforms(count))) / window.shape)
    gaps /= math.gamma(1.0 + 1.0 / window.shape) * window.rate
    return np.cumsum(gaps)
