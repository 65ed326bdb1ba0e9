"""Run a command and tell what it took: ``python process.py REPORT LIMIT_S COMMAND...``.

It imports little, because the peak memory that Linux reports of a process begins with that of the one that
started it. The report is JSON: exit status, processor time, wall time and peak memory of the command and all
that it started. A command that takes longer than the limit is killed.
"""

import json
import os
import sys
import time


def main() -> None:
    """Run the command, and write the report."""
    report, limit_s, command = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    started = time.perf_counter()
    child = os.posix_spawnp(command[0], command, os.environ)
    late = False
    while True:
        ended, status, used = os.wait4(child, os.WNOHANG)
        wall_s = time.perf_counter() - started
        if ended:
            break
        if wall_s > limit_s and not late:
            os.kill(child, 9)
            late = True
        time.sleep(0.005 if wall_s < 2 else 0.05)
    took = {
        "status": os.waitstatus_to_exitcode(status),
        "late": late,
        "cpu_s": used.ru_utime + used.ru_stime,
        "wall_s": wall_s,
        "peak_mb": used.ru_maxrss / 1e3,
    }
    with open(report, "w") as file:  # noqa: PTH123
        json.dump(took, file)


if __name__ == "__main__":
    main()
