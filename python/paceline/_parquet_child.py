"""The process that parses Parquet first: a script, which imports nothing of Paceline's.

It reads a file's length, the limits and the file from standard input, parses it, and writes one line of JSON
with what came of it to standard output; then it waits for the next file. Its first argument is the parent's
``sys.path`` as JSON, its second the most bytes of memory that it may map.
"""

from __future__ import annotations

import contextlib
import io
import json
import struct
import sys
from typing import Final

__all__ = ["HEADER"]

HEADER: Final = "<QQQ"
"""How a file is announced: its length, the most values and the most columns."""


def _answer(data: bytes, most_values: int, most_columns: int) -> dict[str, object]:
    """Parse a file; return what exceeds a limit, what is wrong with it, or nothing."""
    import polars as pl

    try:
        columns = len(pl.read_parquet_schema(io.BytesIO(data)))
        if columns > most_columns:
            return {"limit": "columns", "was": columns}
        rows = int(pl.scan_parquet(io.BytesIO(data)).select(pl.len()).collect().item())
        if rows * columns > most_values:
            return {"limit": "values", "was": rows * columns}
        pl.read_parquet(io.BytesIO(data))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # polars' panics are no Exception
        return {"error": (str(error) or type(error).__name__)[:500]}
    return {}


def _main() -> None:
    sys.path[:] = json.loads(sys.argv[1])
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        # A page that claims 2**40 values ends this process here, and not the machine.
        resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), resource.RLIM_INFINITY))
    while header := sys.stdin.buffer.read(struct.calcsize(HEADER)):
        length, most_values, most_columns = struct.unpack(HEADER, header)
        answer = _answer(sys.stdin.buffer.read(length), most_values, most_columns)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _main()
