"""INV-6: the same inputs give the same bytes."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import paceline

PROGRAM = """
import sys
sys.path[:0] = sys.argv[1:]
from properties.test_inv_06_determinism import digest
print(digest())
"""


def digest() -> str:
    """Replay a load with queues and preemptions, and hash all of its result."""
    trace = paceline.synthesize("azure-conv", requests=3_000, rate=40.0, seed=5)
    instance = paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm", num_blocks=1_500, max_model_len="auto")
    policy = paceline.policies.vllm(routing="fewest_tokens")
    result = paceline.replay(trace, paceline.Cluster(2 * [instance]), policy)
    assert result.totals().preemptions > 0
    content = hashlib.sha256(result.requests.write_csv().encode())
    content.update(result.itl.to_json())
    content.update(repr(result.stats).encode())
    return content.hexdigest()


def test_another_process_with_other_hashes_gives_the_same_bytes() -> None:
    found = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM, *sys.path],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    ]
    assert found == [digest(), digest()]


def test_replays_beside_each_other_give_the_same_bytes() -> None:
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: digest(), range(4))) == {digest()}
