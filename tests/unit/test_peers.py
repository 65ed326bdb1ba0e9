"""`benches/peers`: the work that simulators are given, what is read back, and the tables."""

from __future__ import annotations

import csv
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from benches.peers import measuring, tables  # noqa: E402
from benches.peers.answers import answers_of, read_answers  # noqa: E402
from benches.peers.work import Linear, Work, write_job  # noqa: E402

ROWS = [(0, 10, 3), (500, 20, 1)]


def test_a_job_has_the_trace_in_whole_milliseconds_from_the_first_arrival(tmp_path: Path) -> None:
    work = Work("small", 50, 10.0)
    job = json.loads(write_job(work, tmp_path, cost=Linear(step_s=0.25, token_s=0.5)).read_text())
    with Path(job["trace"]).open(newline="") as file:
        lines = list(csv.DictReader(file))
    read = [(round(1e3 * float(line["arrival"])), *map(int, list(line.values())[1:])) for line in lines]
    assert read == work.rows()
    assert read[0][0] == 0
    assert job["cost"] == {"step_s": 0.25, "token_s": 0.5}


def test_a_longer_work_begins_with_the_shorter() -> None:
    work = Work("small", 50, 10.0)
    assert work.longer(4).rows()[:50] == work.rows()
    assert len(work.longer(4).rows()) == 200


def test_metrics_of_two_requests_worked_by_hand() -> None:
    # The first: TTFT 1 s, then 2 gaps in 3 s. The second has one token, so no TPOT, and ends with it.
    found = answers_of(ROWS, [(1.0, 4.0), (2.5, 2.5)]).summary()
    assert found["ttft_mean"] == pytest.approx(1.5)
    assert found["tpot_mean"] == found["tpot_p99"] == pytest.approx(1.5)
    assert found["e2e_median"] == pytest.approx(3.0)
    assert found["tokens_per_s"] == pytest.approx(4 / 4.0)


def test_moments_are_the_same_within_a_microsecond() -> None:
    ours = answers_of(ROWS, [(1.0, 4.0), (2.5, 2.5)])
    near = answers_of(ROWS, [(1.0, 4.0 + 1e-12), (2.5, 2.5)])
    far = answers_of(ROWS, [(1.0, 4.0), (2.5, 2.75)])
    assert near.against(ours)["same"] == 1
    assert near.digest() == ours.digest()
    assert far.against(ours) == {
        "same": 0.5,
        "first_token_most_s": 0.0,
        "finish_most_s": 0.25,
        "first_row": 1,
    }


def test_a_request_without_an_answer_is_not_counted(tmp_path: Path) -> None:
    (tmp_path / "answers.csv").write_text("first_token,finish\n1.0,4.0\n,\n")
    found = read_answers(tmp_path / "answers.csv", ROWS)
    assert math.isnan(found.finish[1])
    assert found.summary()["finished"] == 1


@pytest.mark.parametrize("moments", [[(1.0, 4.0)], [(1.0, 4.0), (0.25, 2.5)]], ids=["missing", "too early"])
def test_answers_that_cannot_be_right_are_refused(moments: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match="answer"):
        answers_of(ROWS, moments)


def test_every_adapter_has_the_interface() -> None:
    found = measuring.peers()
    assert next(iter(found)) == measuring.BASE
    for peer in found.values():
        assert set(peer.ABOUT.costs) <= set(tables.COSTS)
        assert callable(peer.prepare)
        assert callable(peer.command)


def test_a_process_is_timed_and_its_failure_told() -> None:
    took = measuring.timed([sys.executable, "-c", "print(7)"], limit_s=60, environment={})
    assert took.output == "7\n"
    assert took.wall_s > 0
    assert took.peak_mb > 1
    with pytest.raises(RuntimeError, match="ended with 3: why"):
        measuring.timed(
            [sys.executable, "-c", "import sys; sys.stderr.write('why'); sys.exit(3)"],
            limit_s=60,
            environment={},
        )


def kept() -> dict[str, Any]:
    """Measurements of two simulators: the other takes 3 times as long at the larger size."""
    summary = dict.fromkeys((*tables.METRICS, "tokens_per_s"), 2.0)

    def run(requests: int, cpu_s: list[float], by: float = 1.0) -> dict[str, Any]:
        row = {"work": "load", "requests": requests, "rate": 5.0, "cost": "linear", "cpu_s": cpu_s}
        times = {"wall_s": cpu_s, "replay_s": cpu_s, "peak_mb": [100.0]}
        return {**row, **times, "summary": {name: by * value for name, value in summary.items()}}

    def about(name: str) -> dict[str, Any]:
        says = {"definitions": "as Paceline's", "price": "", "instead": ["a setting"], "differs": ["a rule"]}
        return {"name": name, "version": "1", "source": "here", **says}

    other = {"a": run(10, [4.0, 3.0], 1.5), "b": run(40, [15.0], 1.5)}
    other["b"]["against"] = {"same": 0.25, "first_token_most_s": 0.0, "finish_most_s": 0.5, "first_row": 3}
    return {
        "date": "2026-11-27",
        "machine": {"cores": 2, "cpu": "CPU", "python": "3"},
        "deployment": measuring._setting()["deployment"],
        "linear": {"step_s": 0.008, "token_s": 20e-6},
        "peers": {
            "paceline": {
                "about": about("Paceline"),
                "runs": {"a": run(10, [2.0]), "b": run(40, [5.0])},
                "errors": {},
            },
            "other": {"about": about("Other"), "runs": other, "errors": {"c": "no room"}},
        },
    }


def test_the_least_of_the_runs_gives_growth_and_ratio() -> None:
    lines = tables.speed(kept(), "linear").splitlines()
    cells = [cell.strip() for cell in lines[-1].split("|")[1:-1]]
    # 15 s over the least of 4 and 3 s is 5, and over Paceline's 5 s is 3.
    assert cells[:5] == ["Other, load, n = 10", "3.00 s", "15.00 s", "5.00", "3.0"]


def test_answers_are_told_beside_pacelines() -> None:
    last = tables.same(kept()).splitlines()[-1]
    assert "25.0%" in last
    assert "500.00 ms" in last
    assert "+50.00%" in last


def test_the_tables_replace_what_is_between_the_markers(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps(kept()))
    page = tmp_path / "page.md"
    page.write_text(f"before\n{tables.BEGIN}\nold\n{tables.END}\nafter\n")
    for _ in range(2):
        tables.write_tables(tmp_path / "m.json", page)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert text.count("BLIS") == 1
    assert "Failed, c: no room." in text
    page.write_text("no markers")
    with pytest.raises(ValueError, match="once each"):
        tables.write_tables(tmp_path / "m.json", page)
