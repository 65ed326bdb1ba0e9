"""The columns of a saved result, each read from its file when it is first used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl

from paceline._fork import use
from paceline.errors import ResultError
from paceline.result.columns import SCHEMA, RequestColumns

__all__ = ["SavedColumns"]


class SavedColumns(RequestColumns):
    """Columns in a Parquet file.

    Parameters
    ----------
    paths
        The files: the columns are in the first, or in all of them one after the other.
    rows
        The number of requests in it.
    carried
        Its columns of the trace.
    check
        Raises an error if the file is not as it was saved; called before it is first read.
    """

    __slots__ = ("_check", "_paths", "_rows")

    def __init__(
        self, paths: Sequence[Path], rows: int, check: Callable[[], None], carried: tuple[str, ...] = ()
    ) -> None:
        super().__init__({}, {})
        self._carried = carried
        self._paths, self._rows = tuple(paths), rows
        self._check: Callable[[], None] | None = check

    def __len__(self) -> int:
        """Return the number of requests."""
        return self._rows

    def __getitem__(self, name: str) -> pl.Series:
        """Return one column of `names`."""
        if name not in self._made:
            self._read([name])
        return self._made[name]

    @property
    def reasons(self) -> bool:
        """Whether the trace says which tokens are reasoning."""
        return bool(self["first_answer"].is_not_null().any())

    def frame(self) -> pl.DataFrame:
        """Return all columns as one frame."""
        self._read([name for name in self.names if name not in self._made])
        return super().frame()

    def _read(self, names: list[str]) -> None:
        use()
        if self._check is not None:
            self._check()
            self._check = None
        if not names:
            return
        try:
            lazy = pl.scan_parquet(list(self._paths))
            schema = dict(lazy.collect_schema())
            if any(schema.get(name) != dtype for name, dtype in SCHEMA.items()):
                raise ResultError(
                    f"{self._paths[0]}: columns must be {', '.join(SCHEMA)}, were {', '.join(schema)}"
                )
            frame = lazy.select(names).collect()
        except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise ResultError(f"{self._paths[0]}: not readable as Parquet: {error}") from error
        if frame.height != self._rows:
            raise ResultError(f"{self._paths[0]}: must have {self._rows} rows, had {frame.height}")
        self._made.update({name: frame.get_column(name) for name in names})

    def __reduce__(self) -> tuple[Callable[[pl.DataFrame], RequestColumns], tuple[pl.DataFrame]]:
        """Pickle all columns: another process may not see the file."""
        return RequestColumns.from_frame, (self.frame(),)
