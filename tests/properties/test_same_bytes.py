"""Results are the same bytes under any number of polars threads, hash seed and replays at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import hashlib, sys, threading
import paceline
from paceline import Affine, Cluster, Instance, Links, Trace, policies

N = 3_000
TRACE = Trace.from_columns(
    arrival=[(7919 * i % 10_007) / 400 for i in range(N)],
    prompt_tokens=[1 + 31 * i % 700 for i in range(N)],
    output_tokens=[1 + 17 * i % 90 for i in range(N)],
    reasoning_tokens=[(17 * i % 90) // 2 for i in range(N)],
    tenant=[f"t{i % 7}" for i in range(N)],
    session=[f"s{i % 400}" for i in range(N)],
)
MODELS = Cluster(3 * [Instance(model="llama-3.1-8b", gpu="rtx-4090", max_model_len="auto")], Links(gbps=100))
POLICIES = (policies.vllm(prefix_caching=True), policies.andes(), policies.pascal())


def digest(policy, place):
    result = paceline.replay(TRACE, MODELS, policy)
    result.save(place)
    said = hashlib.sha256()
    for path in sorted(place.iterdir()):
        said.update(path.name.encode() + path.read_bytes())
    said.update(result.summary().write_csv().encode())
    return said.hexdigest()


from pathlib import Path
if sys.argv[1] == "alone":
    found = [digest(policy, Path(f"{i}")) for i, policy in enumerate(POLICIES)]
else:
    found = [None] * len(POLICIES)

    def work(i):
        found[i] = digest(POLICIES[i], Path(f"{i}"))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(POLICIES))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(" ".join(found))
"""


def digests(folder: Path, how: str, threads: str, seed: str) -> str:
    """Replay and save under three policies in a new process, and return hashes of all that was written."""
    folder.mkdir()
    given = {**os.environ, "POLARS_MAX_THREADS": threads, "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, "-c", CODE, how], capture_output=True, text=True, check=False, cwd=folder, env=given
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> str:
    said = digests(tmp_path_factory.mktemp("runs") / "first", "alone", "1", "0")
    assert len(set(said.split())) == 3
    return said


# Together with the expected run (alone, 1, 0), any two settings occur in all combinations of their values.
@pytest.mark.parametrize(
    ("how", "threads", "seed"), [("alone", "4", "1"), ("at once", "1", "1"), ("at once", "4", "0")]
)
def test_results_are_the_same_bytes(expected: str, tmp_path: Path, how: str, threads: str, seed: str) -> None:
    assert digests(tmp_path / "run", how, threads, seed) == expected
