"""INV-7: the order of rows does not matter."""

from __future__ import annotations

import tempfile
from pathlib import Path

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

import paceline

ROWS = st.lists(
    st.tuples(st.integers(0, 500), st.integers(1, 300), st.integers(1, 60)),
    min_size=1,
    max_size=30,
    unique_by=lambda row: row[0],
)


def replayed(rows: list[tuple[int, int, int]], *, max_num_seqs: int = 64) -> pl.DataFrame:
    """Write rows of (arrival in ms, prompt, output) to a file, and replay it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.csv"
        lines = [f"{arrival / 1000},{prompt},{output}" for arrival, prompt, output in rows]
        file.write_text("\n".join(["arrival,prompt_tokens,output_tokens", *lines]) + "\n")
        trace = paceline.read_trace(file)
    cost = paceline.Affine(step_s=0.010, token_s=1e-5, kv_token_s=1e-6)
    cluster = paceline.Cluster(2 * [paceline.Instance(cost=cost, num_blocks=41)])
    policy = paceline.policies.vllm(max_num_seqs=max_num_seqs, routing="round_robin")
    return paceline.replay(trace, cluster, policy).requests


@given(data=st.data(), rows=ROWS)
def test_shuffling_the_rows_of_a_file_changes_nothing(
    data: st.DataObject, rows: list[tuple[int, int, int]]
) -> None:
    shuffled = data.draw(st.permutations(rows))
    assert replayed(shuffled).equals(replayed(sorted(rows)))


def test_of_requests_that_arrive_together_the_first_in_the_file_is_served_first() -> None:
    requests = replayed([(5, 7, 3), (0, 30, 2), (0, 20, 4), (0, 10, 1)], max_num_seqs=1)
    assert requests["prompt_tokens"].to_list() == [30, 20, 10, 7]
    first_on_each = requests["scheduled"].to_list()[:2]
    assert first_on_each == [0.0, 0.0]
    # Two instances: the third waits for the first, and the fourth for the second.
    assert requests["scheduled"].to_list()[2:] == requests["finish"].to_list()[:2]
