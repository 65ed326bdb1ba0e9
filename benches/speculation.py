"""Speeds with drafts beside those that vLLM measured: the table of docs/guides/speculation.md.

    python benches/speculation.py [--requests 1000000]

vLLM pull request 16937: Llama-3.1-8B on one H100, MT-bench, one request at a time. It reports no acceptance
lengths, so the last number is the length at which the predicted speed-up is the measured one.

With --requests: how long a replay of so many takes without drafts, and with three.
"""

from __future__ import annotations

import argparse
import time

from scipy.optimize import brentq

from paceline import (
    AcceptanceLength,
    Cluster,
    Draft,
    Instance,
    Speculation,
    Trace,
    policies,
    replay,
    synthesize,
)

PROMPT, OUTPUT = 100, 500
"""Assumed."""
NONE = 133.0
MEASURED = (("EAGLE", 2, 201.7), ("EAGLE", 4, 198.0), ("EAGLE", 7, 169.9), ("EAGLE-3", 2, 220.2))


def tokens_per_s(speculation: Speculation | None) -> float:
    """Return the predicted speed of one request."""
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[PROMPT], output_tokens=[OUTPUT])
    instance = Instance(model="llama-3.1-8b", gpu="h100-sxm", speculation=speculation)
    return 1 / replay(trace, Cluster([instance]), policies.vllm()).requests["tpot"].item()


def drafted(tokens: int, length: float) -> Speculation:
    return Speculation(tokens=tokens, acceptance=AcceptanceLength(length), draft=Draft())


def table() -> None:
    """Print predicted speeds beside measured ones."""
    plain = tokens_per_s(None)
    print(f"none: {NONE} tokens/s measured, {plain:.1f} predicted")
    for method, tokens, measured in MEASURED:
        wanted = measured / NONE
        least = tokens_per_s(drafted(tokens, 1.0)) / plain
        found = brentq(
            lambda length, tokens=tokens, wanted=wanted: (
                tokens_per_s(drafted(tokens, length)) / plain - wanted
            ),
            1.0,
            tokens + 1.0,
            xtol=0.005,
        )
        print(
            f"{method}, k = {tokens}: {measured} measured, {wanted:.2f} times; {least:.2f} at 1; {found:.2f}"
        )


def durations(requests: int) -> None:
    """Print how long replays take, without drafts and with three."""
    trace = synthesize("azure-conv", requests=requests, seed=1, rate=250.0)
    took = []
    for name, speculation in (("none", None), ("k = 3", drafted(3, 2.5))):
        one = Instance(model="llama-3.1-8b", gpu="h100-sxm", speculation=speculation)
        began = time.perf_counter()
        replay(trace, Cluster([one] * 16), policies.vllm())
        took.append(time.perf_counter() - began)
        print(f"{requests:,} requests, {name}: {took[-1]:.2f} s", flush=True)
    print(f"{took[1] / took[0]:.1f} times")


def main() -> None:
    """Print the table, or the times of replays."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int)
    given = parser.parse_args()
    if given.requests is None:
        table()
    else:
        durations(given.requests)


if __name__ == "__main__":
    main()
