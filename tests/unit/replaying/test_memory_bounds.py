"""Memory is allocated as it is used; a size above a bound is an error before any allocation."""

from __future__ import annotations

import resource
import subprocess
import sys
import textwrap

import pytest

from paceline import Affine, ConfigError, Instance

GIB = 2**30

PREAMBLE = """
    import resource
    import paceline
    from paceline import Affine, Cluster, Instance, Trace, policies

    def replay(trace=None, *, block_tokens=16, num_blocks=101, prefix_caching=True, instances=1):
        import polars as pl
        trace = trace or Trace.from_columns(arrival=[0.0], prompt_tokens=[40], output_tokens=[3])
        instance = Instance(cost=Affine(step_s=0.01), num_blocks=num_blocks, block_tokens=block_tokens)
        policy = policies.vllm(prefix_caching=prefix_caching)
        return paceline.replay(trace, Cluster(instances * [instance]), policy)

    replay()  # threads and libraries first
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
"""


def taken(code: str) -> int:
    """Run code under a limit on memory, and return how many bytes more than before it took at most."""
    whole = textwrap.dedent(PREAMBLE) + textwrap.dedent(code)
    whole += "\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    done = subprocess.run(
        [sys.executable, "-c", whole],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (8 * GIB, 8 * GIB)),
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return 1024 * int(done.stdout.split()[-1])


@pytest.mark.parametrize(
    "code",
    [
        "replay(num_blocks=2**32 - 1)",
        "replay(num_blocks=10**9, instances=20)",
        "replay(num_blocks=2**32 - 1, block_tokens=2**20)",
        "replay(block_tokens=2**20, instances=20)",
    ],
)
def test_a_huge_cache_takes_what_is_used_of_it(code: str) -> None:
    assert taken(code) < 256 * 2**20


def test_huge_blocks_of_a_trace_take_what_is_used_of_them() -> None:
    code = """
        trace = Trace.from_columns(
            arrival=[0.0, 0.0, 0.1], prompt_tokens=[5, 6, 7], output_tokens=[1, 1, 1],
            prefix=[[1], [2], [1]], prefix_block_tokens=2**30 - 1,
        )
        result = replay(trace, block_tokens=1)
        assert result.requests["cached_tokens"].to_list() == [0, 0, 5], result.requests["cached_tokens"]
    """
    assert taken(code) < 256 * 2**20


def test_blocks_beyond_the_bounds_are_refused_with_the_reason() -> None:
    cost = Affine(step_s=0.01)
    with pytest.raises(ConfigError, match=r"block_tokens .* at most 1048576 \(the engine keeps a counter"):
        Instance(cost=cost, num_blocks=101, block_tokens=4_000_000_000)
    with pytest.raises(ConfigError, match=r"num_blocks .* at most 4294967295 .*32 bits\), was 4294967296"):
        Instance(cost=cost, num_blocks=2**32)
