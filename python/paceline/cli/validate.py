"""`paceline validate`: replay a measured run, and print how close the latencies come."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from paceline.cli.suite import NO_SUITE, SuiteOptions
from paceline.cli.waiting import NO_CLIENTS, ClientOptions

__all__ = ["validate"]


def validate(
    folder: Path | None = None,
    /,
    *,
    overhead_us: float | None = None,
    reductions: Path | None = None,
    profile: str | None = None,
    frontend_ms: float = 0.0,
    waiting: ClientOptions = NO_CLIENTS,
    of: SuiteOptions = NO_SUITE,
    json: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> None:
    """Replay a measured run and compare TTFT, TPOT and E2E latency with what was measured.

    Parameters
    ----------
    folder
        With requests.parquet, engine.json and profile/, and perhaps peer-llmservingsim.txt; or with
        Splitwise's perf_model.csv, of which half of the sizes fit a roofline that is compared with the rest;
        or with RUN.csv.gz of open-loop runs (residency-vllm's: Qwen3-14B on one H100, vLLM 0.23.0), of
        which the means are compared by rate with the catalog's roofline. Without it, --suite names a folder.
    overhead_us
        Microseconds of a step that no kernel explains. By default what was fitted for the engine's version.
    reductions
        Folder of all-reduces in Vidur's format, for perf_model.csv; by default a link is fitted to the steps.
    profile
        For open-loop runs: measured kernels to replay with as well, such as aisimulate/h100_sxm/vllm.
    frontend_ms
        For open-loop runs: milliseconds from a request's sending until the scheduler sees it.
    json
        Print one JSON object instead of a table: seconds, by metric and statistic.
    """
    from paceline.cli.output import console, print_json, table
    from paceline.errors import ConfigError
    from paceline.validation import validate as compare

    if (folder is None) == (of.suite is None):
        raise ConfigError("validate takes one folder: FOLDER of one run, or --suite DIR of many points")
    if folder is None:
        from paceline.cli.suite import replay_suite

        replay_suite(of, json=json)
        return

    if (folder / "perf_model.csv").is_file():
        from paceline.cli.splitwise import compare_roofline

        compare_roofline(folder, reductions, json=json)
        return

    if not (folder / "engine.json").is_file() and any(folder.glob("*.csv.gz")):
        from paceline.cli.open_loop import compare_open_loop

        compare_open_loop(
            folder, profile, frontend_s=1e-3 * frontend_ms, json=json, clients=waiting.clients()
        )
        return

    comparison = compare(folder, overhead_s=None if overhead_us is None else 1e-6 * overhead_us)
    if json:
        print_json(comparison.to_json())
        return
    rows = [
        [
            f"{metric.upper()} {statistic}",
            f"{1e3 * measured:,.1f}",
            f"{1e3 * predicted:,.1f}",
            f"{100 * ours:+.1f}%",
            "" if theirs is None else f"{100 * theirs:+.1f}%",
        ]
        for metric, statistic, measured, predicted, ours, theirs in comparison.rows()
    ]
    console().print(table([comparison.name, "measured ms", "predicted ms", "off by", "peer off by"], rows))
    for note in comparison.notes:
        console().print(note)
