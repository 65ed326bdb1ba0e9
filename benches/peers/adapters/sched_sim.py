"""sched-sim: a discrete-event simulator of schedulers in Python."""

from __future__ import annotations

from benches.peers.adapter import About, from_pypi

NAME = "sched-sim"
VERSION = "0.2.1"
ABOUT = About(
    name=NAME,
    version=VERSION,
    source="PyPI",
    costs=("linear", "own"),
    most_requests=8_000,
    limit_s=90.0,
    definitions="as Paceline's; its TPOT of a request with one token is its TTFT",
    price="a roofline with 55% of the peak of computing and all of the bandwidth",
    instead=(
        "no limit of running requests: `max_batch_size` is stored and the chunked scheduler does not read it",
        "its H100 has a 70B model: the model's fields are taken from its A100, which has Llama 3 8B",
    ),
    differs=(
        "the step that ends a prefill yields the first token's moment and counts no token, so a request "
        "decodes one step more than in vLLM (`core/event_engine.py`)",
        "a prompt that was allocated a first chunk gets no block for its further chunks "
        "(`BlockManager.allocate` returns at once), and its decode takes one block a step until it has "
        "caught up",
        "where memory is short it stops making progress, and does not end: a request that gets no block "
        "after a preemption is queued again and keeps its blocks (`schedulers/chunked.py`), until those that "
        "wait hold nearly all",
    ),
)
prepare, command = from_pypi(NAME, VERSION)
