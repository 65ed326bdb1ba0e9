"""Traces that are read in chunks, so that they need not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import polars as pl

from paceline import _check
from paceline._arguments import typed
from paceline._fork import use
from paceline.errors import TraceError
from paceline.trace.digest import columns_sha256
from paceline.trace.model import Trace
from paceline.trace.rows import Rows
from paceline.trace.schema import COLUMNS, REQUIRED, missing_columns, typed_column
from paceline.trace.seal import check_sealed_file
from paceline.trace.source import Source

__all__ = ["TraceScan", "scan_trace"]

CHUNK: Final = 1 << 18
"""Rows that are read at once: as many as polars writes into a row group."""

_LEAST: Final = 1 << 10
"""Rows of a column of text or lists that are read at once, at least, for the hash."""

_BLOCK_TOKENS: Final = "prefix_block_tokens"


@typed(TraceError)
def scan_trace(
    path: str | Path, *, chunk: int = CHUNK, drop: Sequence[str] = (), trusted: bool = False
) -> TraceScan:
    """Open a trace that need not fit into memory; :func:`~paceline.replay` reads it in chunks.

    Parameters
    ----------
    path
        Parquet in Paceline's own schema, in order of arrival: a file, or a folder of ``.parquet`` files, one
        part of the trace after the other in the order of their names. `Trace.write` and ``paceline
        synthesize`` write such files. Other formats are read by :func:`~paceline.read_trace`.
    chunk
        Rows that are read at once.
    drop
        Columns that are left out.
    trusted
        Also read files without Paceline's checksum, such as those of other tools. If one is damaged, reading
        it may end the process.

    Returns
    -------
    TraceScan
        Its rows are checked as they are read.

    Raises
    ------
    TraceError
        There are no such files, one was changed after it was written or has no checksum, or their columns
        differ or are not those of a trace.

    Examples
    --------
    >>> import paceline, tempfile
    >>> trace = paceline.synthesize("azure-conv", requests=1_000, rate=60.0, seed=11)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trace.write(f"{folder}/conv.parquet")
    ...     scan = scan_trace(f"{folder}/conv.parquet", chunk=400)
    ...     scan, [len(part) for part in scan.chunks()], scan.sha256 == trace.sha256
    (<TraceScan 'conv': 1,000 requests in 1 file>, [400, 400, 200], True)
    """
    use()
    _check.path(path, TraceError)
    if not (_check.is_number(chunk) and chunk >= 1):
        raise TraceError(f"chunk must be 1 or more rows, was {chunk}")
    path = Path(path)
    files = _files(path)
    for file in files:
        if not check_sealed_file(file) and not trusted:
            raise TraceError(
                f"{file}: has no checksum of Paceline's, and damage to it could end this process; pass "
                "trusted=True to read it, or write it again with Trace.write"
            )
    return TraceScan(path, files, chunk, frozenset(drop))


def _files(path: Path) -> tuple[Path, ...]:
    """Return the files of a trace in order."""
    if not path.is_dir():
        if path.suffix != ".parquet":
            raise TraceError(
                f"{path}: must be a .parquet file or a folder of them to be scanned; read_trace(...).write("
                "'trace.parquet') writes one"
            )
        path.stat()
        return (path,)
    files = tuple(sorted(path.glob("*.parquet")))
    if not files:
        raise TraceError(f"{path}: must hold .parquet files to be scanned, held none")
    return files


class TraceScan:
    """A trace in files, which is read in chunks. Made by :func:`scan_trace`."""

    __slots__ = (
        "_chunk",
        "_drop",
        "_files",
        "_heights",
        "_names",
        "_path",
        "_prefix_block_tokens",
        "_schema",
        "_sha256",
    )

    @typed(TraceError)
    def __init__(self, path: Path, files: Sequence[Path], chunk: int, drop: frozenset[str]) -> None:
        self._path, self._files, self._chunk, self._drop = path, tuple(files), chunk, drop
        self._sha256: str | None = None
        self._names: dict[str, list[str]] = {}
        schemas = [_schema(file) for file in files]
        for file, schema in zip(files, schemas, strict=True):
            if schema != schemas[0]:
                raise TraceError(f"{file}: must have the columns of {files[0].name}: {_said(schemas[0])}")
        self._schema = {name: dtype for name, dtype in schemas[0].items() if name not in drop}
        missing = missing_columns(list(self._schema), REQUIRED)
        if missing:
            raise TraceError(f"{path}: missing {missing}; a trace needs {', '.join(REQUIRED)}")
        if not self._schema["arrival"].is_numeric():
            was = self._schema["arrival"]
            raise TraceError(f"{path}: arrival must hold seconds to be scanned, was {was}")
        self._heights = [
            int(_collected(pl.scan_parquet(file).select(pl.len()), file).item()) for file in files
        ]
        if not len(self):
            raise TraceError(f"{path}: a trace must have at least one request, was empty")
        self._prefix_block_tokens = self._block_tokens()

    @property
    def mean_prompt_tokens(self) -> float:
        """The mean of its prompts, for which the files are read."""
        mean = pl.scan_parquet(list(self._files)).select(pl.col("prompt_tokens").mean())
        return float(_collected(mean, self._path).item())

    @property
    def name(self) -> str:
        """The name of the trace in messages and tables."""
        return self._path.name.removesuffix(".parquet") or self._path.name

    @property
    def source(self) -> Source:
        """The source of the trace."""
        return Source(kind="paceline", path=str(self._path), detail="parquet")

    @property
    def dropped(self) -> dict[str, int]:
        """Rows of the files that are left out: none, as one that breaks a rule is refused."""
        return {}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the trace."""
        return tuple(name for name in self._schema if name != _BLOCK_TOKENS)

    @property
    def chunk(self) -> int:
        """Rows that are read at once."""
        return self._chunk

    @property
    def prefix_block_tokens(self) -> int | None:
        """Prompt tokens of one id in ``prefix``; None without that column."""
        return self._prefix_block_tokens

    @property
    def sha256(self) -> str:
        """The hash that the trace has when it is read as a whole (`Trace.sha256`)."""
        if self._sha256 is None:
            ordered = dict.fromkeys((*(name for name in COLUMNS if name in self.columns), *self.columns))
            read = {name: partial(self._column, name) for name in ordered}
            self._sha256 = columns_sha256(read, len(self), self._prefix_block_tokens)
        return self._sha256

    def __len__(self) -> int:
        return sum(self._heights)

    def __repr__(self) -> str:
        count = len(self._files)
        return f"<TraceScan {self.name!r}: {len(self):,} requests in {count} file{'s' * (count > 1)}>"

    def chunks(self, first: int = 0) -> Iterator[Trace]:
        """Read the rows in order, each chunk a trace by itself.

        Parameters
        ----------
        first
            The row at which the first chunk starts, one at which some chunk does.

        Raises
        ------
        TraceError
            The first row that breaks a rule of the schema, or arrives before the row before it.
        """
        latest = self._arrival(first - 1) if first else 0.0
        for start, file, frame in self._read(self.columns, self._chunk, first):
            rows = Rows(str(file), partial(_located, file, start))
            arrival = frame.get_column("arrival").cast(pl.Float64)
            late = pl.select(arrival < pl.concat([pl.Series([latest]), arrival.head(-1)])).to_series()
            if late.any():
                row = int(late.arg_true()[0])
                raise TraceError(
                    f"{rows.locate(row)}: must arrive after the row before it to be scanned, arrival was "
                    f"{arrival[row]}; sort the file by arrival, or read it with read_trace"
                )
            part = Trace(frame, name=self.name, prefix_block_tokens=self._prefix_block_tokens, _rows=rows)
            latest = float(arrival[-1])
            yield part

    def names(self, column: str) -> list[str]:
        """Return the distinct values of a column of text, sorted; none without the column."""
        if column not in self._schema:
            return []
        if column not in self._names:
            distinct = pl.col(column).cast(pl.String).drop_nulls().unique()
            found = _collected(pl.scan_parquet(list(self._files)).select(distinct), self._path)
            self._names[column] = found.get_column(column).sort().to_list()
        return self._names[column]

    def _block_tokens(self) -> int | None:
        if _BLOCK_TOKENS not in self._schema:
            return None
        column = pl.col(_BLOCK_TOKENS)
        sizes = _collected(
            pl.scan_parquet(list(self._files)).select(
                column.min().alias("least"), column.max().alias("most"), column.null_count().alias("nulls")
            ),
            self._path,
        ).row(0)
        if sizes[0] != sizes[1] or sizes[2] or not self._schema[_BLOCK_TOKENS].is_integer():
            raise TraceError(f"{self._path}: {_BLOCK_TOKENS} must be the same whole number in every row")
        return int(sizes[0]) if "prefix" in self._schema else None

    def _arrival(self, row: int) -> float:
        """Read the arrival of a row."""
        _, _, frame = next(self._read(["arrival"], 1, row))
        return float(frame.get_column("arrival").cast(pl.Float64).item())

    def _read(
        self, columns: Sequence[str], rows: int, first: int = 0
    ) -> Iterator[tuple[int, Path, pl.DataFrame]]:
        """Read some columns from a row on, these rows at a time, with the first row's place in its file."""
        for file, height in zip(self._files, self._heights, strict=True):
            lazy = pl.scan_parquet(file).select(columns)
            for start in range(min(first, height), height, rows):
                yield start, file, _collected(lazy.slice(start, rows), file)
            first = max(first - height, 0)

    def _column(self, name: str) -> Iterator[pl.Series]:
        """Read one column in the type that traces have it in, in parts.

        Parts have more rows than a chunk where these are small: each read of a slice has a cost of its own. A
        column of numbers takes at most 8 bytes a row.
        """
        least = CHUNK if self._schema[name].is_numeric() else _LEAST
        rows = max(self._chunk, least)
        for _, file, frame in self._read([name], rows):
            yield typed_column(frame.get_column(name), Rows(str(file), str))


def _located(file: Path, start: int, row: int) -> str:
    """Name a row of a chunk that starts at a row of a file."""
    return f"{file}, row {start + row} (counting from 0)"


def _schema(file: Path) -> dict[str, pl.DataType]:
    try:
        return dict(pl.read_parquet_schema(file))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise TraceError(f"{file}: is no readable Parquet file: {error}") from error


def _collected(lazy: pl.LazyFrame, path: Path) -> pl.DataFrame:
    try:
        return lazy.collect(engine="streaming")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise TraceError(f"{path}: is no readable Parquet file: {error}") from error


def _said(schema: dict[str, pl.DataType]) -> str:
    return ", ".join(f"{name} ({dtype})" for name, dtype in schema.items())
