"""What every driver in Python writes: the moments of each request, and its time."""

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def say(job: dict[str, Any], moments: Iterable[Iterable[float | None]], **said: Any) -> None:
    """Write the first token and the end of each request in order, in seconds, and print what else is said."""
    with Path(job["out"]).open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(("first_token", "finish"))
        out.writerows(moments)
    print(json.dumps(said))
