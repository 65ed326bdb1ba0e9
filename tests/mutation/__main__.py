"""`python -m tests.mutation`: see `run`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
# Replays run on one thread; pools of threads would not survive the processes that replay with a mutant.
for threads in ("POLARS_MAX_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(threads, "1")

from mutation.run import main  # noqa: E402

main()
