"""Memory and time of replays of scanned traces, by their number of requests.

    python benches/streaming.py [REQUESTS ...]

Draws a trace for each number (1, 4 and 16 million if none is given) into a folder, and replays it in a
process of its own, whose largest resident memory and processor time are printed. A trace of a million
requests is also replayed in memory and saved, for comparison. The folder is removed at the end.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

CODE = """
import json, resource, sys, time
from pathlib import Path
import paceline

folder, in_memory = Path(sys.argv[1]), sys.argv[2] == "memory"
instance = paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")
cluster, policy = paceline.Cluster(8 * [instance]), paceline.policies.vllm()
began, used = time.perf_counter(), time.process_time()
if in_memory:
    trace = paceline.Trace.concat([paceline.read_trace(path) for path in sorted(folder.glob("*.parquet"))])
    began, used = time.perf_counter(), time.process_time()
    result = paceline.replay(trace, cluster, policy)
    replayed = time.process_time() - used
    result.save(folder.with_name("out"))
else:
    result = paceline.replay(paceline.scan_trace(folder), cluster, policy, out=folder.with_name("out"))
    replayed = None
print(json.dumps({
    "requests": len(result), "finished": result.totals().finished,
    "wall_s": time.perf_counter() - began, "processor_s": time.process_time() - used, "replay_s": replayed,
    "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}))
"""


def measured(folder: Path, how: str) -> dict[str, float]:
    """Replay the trace of a folder in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(folder), how], capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print a row for each number of requests."""
    from paceline.synthesis import synthesize_parts

    counts = [int(word) for word in sys.argv[1:]] or [1_000_000, 4_000_000, 16_000_000]
    print("requests      how       memory    wall a million   processor a million")
    with tempfile.TemporaryDirectory() as place:
        for count in counts:
            folder = Path(place) / f"{count}"
            synthesize_parts("azure-conv", folder, requests=count, rate=60.0, seed=1)
            for how in ("memory", "stream") if count <= 1_000_000 else ("stream",):
                found = measured(folder, how)
                millions = found["requests"] / 1e6
                said = [f"{found[name] / millions:6.2f} s" for name in ("wall_s", "processor_s")]
                memory = f"{found['memory_mib']:>5,.0f} MiB"
                print(f"{count:>11,}   {how:<8} {memory}   {said[0]:>14}   {said[1]:>14}", flush=True)


if __name__ == "__main__":
    main()
