"""The requests of a streamed replay, written in parts as they end."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from paceline._atomic import flush
from paceline._jobs import Call
from paceline.result.columns import SCHEMA, RequestColumns
from paceline.result.manifest import check_file, file_entry
from paceline.result.outcome import Sketch
from paceline.result.save import write_requests
from paceline.result.spreads import Spreading
from paceline.result.summary import metrics_of, summary_frame
from paceline.result.totals import Tally

__all__ = ["RequestParts"]

_NOT_KEPT: Final = "prefix"

_OPEN: Final = "open.parquet"
_SPREADS: Final = "spreads.npz"
"""What `RequestParts.keep` writes: the rows of the trace whose requests have not ended, and the spreads."""


class RequestParts:
    """Writes requests in the order of the trace, each part while the replay goes on; a context manager.

    Parameters
    ----------
    directory
        Where the files are written.
    columns
        The columns of the trace.
    """

    def __init__(self, directory: Path, columns: Sequence[str]) -> None:
        self._directory = directory
        self._reasons = "reasoning_tokens" in columns
        # Rows of the trace that are not written.
        self._frames: deque[pl.DataFrame] = deque()
        self._spreads = {name: Spreading() for name in metrics_of(reasons=self._reasons) if name != "itl"}
        self._tally: Tally | None = None
        self._writing: Call[None] | None = None
        self._flushed: set[str] = set()
        self.entries: dict[str, dict[str, Any]] = {}
        self.carried: list[str] = []
        self.rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writing is not None:
            self._writing.leave()

    def hold(self, rows: pl.DataFrame) -> None:
        """Keep rows of the trace until they are written."""
        self._frames.append(rows.drop(_NOT_KEPT, strict=False))

    def write(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write the next rows with what the engine returns of them, while the caller goes on."""
        count = arrays["status"].size
        if not count:
            return
        columns = RequestColumns.from_arrays(self._next(count), arrays)
        self._wait()
        name = f"requests-{len(self.entries):05}.parquet"
        self.entries[name] = {}
        self.rows += count
        self._writing = Call(partial(self._write, columns, name))
        self._writing.start()

    def finish(self, itl: Sketch) -> tuple[pl.DataFrame, Tally]:
        """Return the summary and the counts of all requests, once the last part is written."""
        self._wait()
        assert self._tally is not None, "Invariant: a trace has a request"
        figures = {name: spread.figures(partial(self._read, name)) for name, spread in self._spreads.items()}
        return summary_frame(figures, itl, reasons=self._reasons), self._tally

    def keep(self, folder: Path) -> Mapping[str, Any]:
        """Write what goes on to a folder, once the last part is written; return the rest of it.

        Returns
        -------
        Mapping
            What `take` needs beside the folder, ready for JSON.
        """
        self._wait()
        for name in self.entries:
            if name not in self._flushed:
                flush(self._directory / name)
                self._flushed.add(name)
        if self._frames:
            pl.concat(self._frames).write_parquet(folder / _OPEN, compression="zstd", compression_level=1)
        arrays: dict[str, Any] = {
            f"{name}.{part}": array
            for name, spread in self._spreads.items()
            for part, array in spread.state().items()
        }
        np.savez_compressed(folder / _SPREADS, **arrays)
        tally = None if self._tally is None else asdict(self._tally)
        return {"rows": self.rows, "carried": self.carried, "entries": self.entries, "tally": tally}

    def take(self, folder: Path, rest: Mapping[str, Any]) -> None:
        """Go on from what `keep` wrote and returned.

        Raises
        ------
        ResultError
            If a part was changed or removed.
        """
        for path in self._directory.glob("requests-*.parquet"):
            if path.name not in rest["entries"]:
                path.unlink()
        for name, entry in rest["entries"].items():
            check_file(self._directory, name, entry)
        self.rows, self.carried, self.entries = rest["rows"], list(rest["carried"]), dict(rest["entries"])
        self._flushed = set(self.entries)
        self._tally = None if rest["tally"] is None else Tally(**rest["tally"])
        if (folder / _OPEN).exists():
            self._frames = deque([pl.read_parquet(folder / _OPEN)])
        with np.load(folder / _SPREADS) as arrays:
            for name, spread in self._spreads.items():
                spread.restore({part: arrays[f"{name}.{part}"] for part in spread.state()})

    def _next(self, count: int) -> pl.DataFrame:
        """Remove so many rows of the trace from those that are kept."""
        taken = []
        while count:
            first = self._frames.popleft()
            if first.height > count:
                self._frames.appendleft(first[count:])
                first = first[:count]
            taken.append(first)
            count -= first.height
        return pl.concat(taken, rechunk=True)

    def _wait(self) -> None:
        """Wait until the part before is written, and raise its error."""
        if self._writing is not None:
            self._writing.result()
            self._writing = None

    def _write(self, columns: RequestColumns, name: str) -> None:
        frame = columns.frame()
        path = self._directory / name
        write_requests(frame, path)
        self.entries[name] = file_entry(path)
        self.carried = [name for name in frame.columns if name not in SCHEMA]
        for metric, spread in self._spreads.items():
            spread.add(frame.get_column(metric))
        tally = Tally.of(columns)
        self._tally = tally if self._tally is None else self._tally + tally

    def _read(self, column: str) -> Iterator[pl.Series]:
        """Read one column of the parts."""
        for name in self.entries:
            yield pl.read_parquet(self._directory / name, columns=[column]).get_column(column)
