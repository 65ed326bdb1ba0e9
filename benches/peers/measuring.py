"""Run simulators, and keep what they took and answered."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import platform
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from benches.peers import adapters
from benches.peers.adapter import HERE, About, Peer
from benches.peers.answers import Answers, read_answers
from benches.peers.work import WORKS, Deployment, Linear, Work, write_job

BASE = "paceline"
#: The larger of the two numbers of requests, over the smaller.
TIMES = 4
#: Runs of a case. One that took longer than `PATIENCE_S` is not repeated.
ROUNDS = 3
PATIENCE_S = 12.0
#: Not passed on: a user's shell has neither. Without bytecode, modules are compiled in each run.
UNSET = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")


class Case(NamedTuple):
    """A work of a size, under the shared price of a step or each simulator's own."""

    work: Work
    cost: str

    @property
    def key(self) -> str:
        """Return the name under which measurements are kept."""
        return f"{self.work.name}/{self.work.requests}/{self.cost}"

    def smaller_keys(self) -> list[str]:
        """Return the keys of this case and of those of the same work with fewer requests."""
        sizes = next(each for one in WORKS if self.work in (each := (one, one.longer(TIMES))))
        return [Case(size, self.cost).key for size in sizes if size.requests <= self.work.requests]


def cases(works: Collection[str] = ()) -> list[Case]:
    """Return all cases, or those of the named works."""
    sizes = sorted(
        (work for one in WORKS if not works or one.name in works for work in (one, one.longer(TIMES))),
        key=lambda of: of.requests,
    )
    return [Case(work, cost) for work in sizes for cost in ("linear", "own")]


def peers() -> dict[str, Peer]:
    """Return the adapters by name, Paceline first."""
    names = sorted(found.name for found in pkgutil.iter_modules(adapters.__path__))
    names.sort(key=lambda name: name != BASE)
    return {name: importlib.import_module(f"benches.peers.adapters.{name}") for name in names}  # type: ignore[misc]


class Took(NamedTuple):
    """What a process and all that it started took."""

    cpu_s: float
    wall_s: float
    peak_mb: float
    output: str


def timed(command: list[str], *, limit_s: float, environment: dict[str, str]) -> Took:
    """Run a command to its end; return its time on processors, its wall time and its peak memory.

    Raises
    ------
    RuntimeError
        If it fails or takes longer than the limit, with the end of what it wrote.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        process = [sys.executable, "-S", "-E", str(HERE / "process.py"), str(report), str(limit_s)]
        done = subprocess.run(
            [*process, *command], capture_output=True, text=True, env=environment, check=True
        )
        took = json.loads(report.read_text())
    if took["late"]:
        raise RuntimeError(f"it took longer than {limit_s:.0f} s")
    if took["status"] != 0:
        # Without the paths of a traceback.
        last = (done.stderr.strip().splitlines() or [""])[-1]
        raise RuntimeError(f"it ended with {took['status']}: {last[:300]}")
    return Took(took["cpu_s"], took["wall_s"], took["peak_mb"], done.stdout)


def run(peer: Peer, case: Case, cache: Path) -> tuple[Took, dict[str, Any], Answers]:
    """Run a case with a simulator once; return what it took, what its driver said, and the answers."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = write_job(case.work, folder, cost=Linear() if case.cost == "linear" else None)
        environment = {name: value for name, value in os.environ.items() if name not in UNSET}
        environment |= peer.ABOUT.environment
        took = timed(peer.command(cache, job), limit_s=peer.ABOUT.limit_s, environment=environment)
        said = json.loads(took.output.strip().splitlines()[-1])
        return took, said, read_answers(folder / "answers.csv", case.work.rows())


def measure(cache: Path, out: Path, only: list[str], works: list[str], rounds: int = ROUNDS) -> None:
    """Measure works with simulators (the named ones, or all if empty), and keep the results after each run.

    The simulators take turns, so that times that are compared were taken beside each other. One that fails
    is noted and the others go on. What is in the file of simulators and works that are not named stays.
    """
    chosen = {name: peer for name, peer in peers().items() if not only or name in only}
    kept = json.loads(out.read_text()) if out.is_file() else {"peers": {}}
    kept |= _setting()
    measured = {case.key for case in cases(works)}
    for name, peer in list(chosen.items()):
        before = kept["peers"].get(name, {"runs": {}, "errors": {}})
        kept["peers"][name] = {
            "about": about(peer.ABOUT),
            **{
                part: {key: of for key, of in before[part].items() if key not in measured | {"install"}}
                for part in ("runs", "errors")
            },
        }
        try:
            peer.prepare(cache)
        except (OSError, subprocess.CalledProcessError) as error:
            kept["peers"][name]["errors"]["install"] = type(error).__name__
            del chosen[name]
    ours: dict[Case, Answers] = {}
    for number, case, name in _turns(chosen, cases(works), rounds):
        found = kept["peers"][name]
        before = found["runs"].get(case.key)
        # What failed at a size is not tried at a larger one.
        failed = any(key in found["errors"] for key in case.smaller_keys())
        if failed or (before and before["cpu_s"][0] > PATIENCE_S):
            continue
        try:
            took, said, answers = run(chosen[name], case, cache)
        except (RuntimeError, ValueError, OSError, LookupError) as error:
            found["errors"][case.key] = str(error)[:300]
        else:
            if name == BASE:
                ours[case] = answers
            _keep(found["runs"], case, took, said, answers)
            # Under the same price, only the scheduling differs.
            if case.cost == "linear":
                if case not in ours:
                    ours[case] = run(peers()[BASE], case, cache)[2]
                found["runs"][case.key]["against"] = answers.against(ours[case])
            print(f"{number + 1} {name:14} {case.key:32} {took.cpu_s:8.2f} s on processors", flush=True)
        out.write_text(json.dumps(kept, indent=1) + "\n")


def _turns(chosen: dict[str, Peer], of: list[Case], rounds: int) -> Iterator[tuple[int, Case, str]]:
    for number in range(rounds):
        for case in of:
            for name, peer in chosen.items():
                if case.cost in peer.ABOUT.costs and case.work.requests <= peer.ABOUT.most_requests:
                    yield number, case, name


def _keep(runs: dict[str, Any], case: Case, took: Took, said: dict[str, Any], answers: Answers) -> None:
    """Add one run to those of its case."""
    row = runs.setdefault(
        case.key,
        {
            **{
                "work": case.work.name,
                "requests": case.work.requests,
                "rate": case.work.rate,
                "blocks": case.work.blocks,
            },
            **{"cost": case.cost, "cpu_s": [], "wall_s": [], "replay_s": [], "peak_mb": []},
            **{"steps": said.get("steps"), "summary": answers.summary(), "digest": answers.digest()},
            "first": _first(answers),
        },
    )
    row["same_again"] = row.get("same_again", True) and row["digest"] == answers.digest()
    row["cpu_s"].append(round(took.cpu_s, 3))
    row["wall_s"].append(round(took.wall_s, 3))
    row["replay_s"].append(round(float(said["replay_s"]), 4))
    row["peak_mb"].append(round(took.peak_mb, 1))


def _first(answers: Answers, number: int = 20) -> list[list[float]]:
    """Return the moments of the first requests, in seconds."""
    pairs = zip(answers.first_token[:number], answers.finish[:number], strict=True)
    return [[round(float(one), 6) for one in pair] for pair in pairs]


def about(of: About) -> dict[str, Any]:
    """Return what the tables say of a simulator."""
    return {
        **{"name": of.name, "version": of.version, "source": of.source, "costs": list(of.costs)},
        **{
            "definitions": of.definitions,
            "price": of.price,
            "instead": list(of.instead),
            "differs": list(of.differs),
        },
    }


def _setting() -> dict[str, Any]:
    """Return when and on what it was measured."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": {"cores": os.cpu_count(), "cpu": _cpu(), "python": platform.python_version()},
        "deployment": vars(Deployment(blocks=WORKS[0].blocks)),
        "linear": vars(Linear()),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
