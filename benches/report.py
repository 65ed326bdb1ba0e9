"""A report of the demo's million requests: the time to write it, its size, and the time to open it.

Usage: python benches/report.py [--requests 1000000] [--rounds 3] [--open]. The first round of a process reads
the charts' script from the user's cache, or makes it there, and imports Altair; later ones are the report
alone. With --open a headless Chromium opens the file, and the time is that until the first charts are drawn.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path

import paceline

DRAWN = "() => document.querySelector('#latency .chart.drawn') !== null"


def opened(path: Path) -> float:
    """Return the seconds until the page has drawn its first charts."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as playwright:
        flags = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        page = browser.new_page()
        begun = time.perf_counter()
        page.goto(f"{path.as_uri()}#latency")
        page.wait_for_function(DRAWN)
        took = time.perf_counter() - begun
        browser.close()
    return took


def main() -> None:
    """Print the figures of each round."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--open", action="store_true")
    options = parser.parse_args()
    trace = paceline.synthesize("azure-conv", requests=options.requests, rate=170.0, seed=11)
    cluster = paceline.Cluster(8 * [paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")])
    slo = paceline.SLO(ttft=1.0, tpot=0.05)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        for place in range(options.rounds):
            result = paceline.replay(trace, cluster, sample=1000)
            begun, busy = time.perf_counter(), time.process_time()
            result.report(path, slo=slo)
            wall, processor = time.perf_counter() - begun, time.process_time() - busy
            print(
                f"round {place + 1}: {options.requests:,} requests, written in {wall:.2f} s "
                f"(processor {processor:.2f} s), {path.stat().st_size / 1e6:.2f} MB"
                + (f", charts after {opened(path):.2f} s" if options.open else "")
            )


if __name__ == "__main__":
    main()
