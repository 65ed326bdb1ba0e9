"""A worker process and its answers; it is restarted if it dies."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from search.case import Case

ROOT = Path(__file__).resolve().parents[2]


class Worker:
    """A process that checks cases.

    Parameters
    ----------
    package : Path or None
        Folder that holds the package `paceline` to check; None: this tree's.
    """

    def __init__(self, package: Path | None = None) -> None:
        paths = [package or ROOT / "python", ROOT / "tests"]
        # Replays run on this thread alone; thread pools would only use address space.
        threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS", "OMP_NUM_THREADS"), "1")
        self._env = {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(map(str, paths))}
        self._process: subprocess.Popen[str] | None = None

    def ask(self, **asked: Any) -> None:
        if self._process is None or self._process.poll() is not None:
            self.stop()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "search.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=self._env,
                text=True,
            )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()

    def answers(self) -> Iterator[dict[str, Any]]:
        """Yield the answers of the process until it is done; if it dies, yield the cause as ``died``."""
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said: dict[str, Any] = json.loads(line)
            yield said
            if said.get("done"):
                return
        yield {"died": _cause(self._process.wait())}

    def check(self, case: Case, number: int = 0) -> tuple[list[tuple[str, str]], str | None]:
        """Return the failures of a case, as kinds and details, and the reason if it was refused."""
        self.ask(case=base64.b64encode(case.to_json()).decode(), number=number)
        for said in self.answers():
            if "died" in said:
                return [(said["died"], "")], None
            if "failures" in said:
                return [(kind, detail) for kind, detail in said["failures"]], said["refused"]
        return [], None

    def stop(self) -> None:
        if self._process is not None:
            with self._process as process:
                process.kill()
            self._process = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _cause(status: int) -> str:
    if status == -signal.SIGXCPU:
        return "hang: inside a decision"
    if status < 0:
        return f"died: {signal.Signals(-status).name}"
    return f"died: exit code {status}"
