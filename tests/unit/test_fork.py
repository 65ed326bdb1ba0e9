"""A process forked after Paceline was used is refused with a sentence, and never hangs."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SETTING = """
    import multiprocessing, os, sys, warnings
    warnings.simplefilter("ignore")  # Python 3.12 warns of any fork beside threads
    import paceline
    from paceline import Affine, Cluster, Instance, Trace

    CLUSTER = Cluster([Instance(cost=Affine(step_s=0.01), num_blocks=101)])

    def made(n=20_000):
        return Trace.from_columns(arrival=[0.0] * n, prompt_tokens=[8] * n, output_tokens=[2] * n)

    def forked(work):
        child = os.fork()
        if child == 0:
            try:
                print(work())
            except paceline.PacelineError as error:
                print(type(error).__name__, error)
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)
"""


def said(code: str, folder: Path) -> list[str]:
    """Run code in a new process that must not hang, and return the lines that it printed."""
    script = folder / "script.py"
    script.write_text(textwrap.dedent(SETTING) + textwrap.dedent(code))
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, timeout=60, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


USES = {
    "replay": "paceline.replay(trace, CLUSTER)",
    "a new trace": "made()",
    "reading": "paceline.read_trace('trace.csv')",
    "loading": "paceline.load_result('result')",
    "synthesis": "paceline.synthesize('azure-conv', seed=0, requests=10)",
    "the trace's table": "trace.frame",
    "the trace's summary": "trace.summary()",
    "the result's summary": "result.summary()",
    "the result's requests": "result.requests.height",
    "the result's totals": "result.totals()",
}


def test_any_use_in_a_forked_process_is_refused_with_what_to_do_instead(tmp_path: Path) -> None:
    lines = said(
        f"""
        trace = made()
        trace.write("trace.csv")
        paceline.replay(trace, CLUSTER).save("result")
        result = paceline.replay(trace, CLUSTER)
        for use in {list(USES.values())!r}:
            forked(lambda: eval(use))
        print(paceline.replay(trace, CLUSTER).summary().height)
        """,
        tmp_path,
    )
    *refused, last = lines
    assert len(refused) == len(USES)
    for use, line in zip(USES, refused, strict=True):
        assert line.startswith("ForkError this process was forked after Paceline had been used"), use
        assert '"spawn" or "forkserver"' in line
    assert last == "6"


def test_a_fork_before_the_first_use_works_on_both_sides(tmp_path: Path) -> None:
    lines = said(
        """
        forked(lambda: paceline.replay(made(), CLUSTER).summary().height)
        print(paceline.replay(made(), CLUSTER).summary().height)
        """,
        tmp_path,
    )
    assert lines == ["6", "6"]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_are_not_forked_work_after_a_use(tmp_path: Path, method: str) -> None:
    lines = said(
        f"""
        def work(n):
            return paceline.replay(made(n), CLUSTER).summary().height

        if __name__ == "__main__":
            work(10)
            with multiprocessing.get_context({method!r}).Pool(1) as pool:
                print(pool.map(work, [10, 20]))
        """,
        tmp_path,
    )
    assert lines == ["[6, 6]"]
