"""How the tests start the command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import TypeAlias

Run: TypeAlias = Callable[..., "subprocess.CompletedProcess[str]"]

ON_ONE_H100 = ("--model", "llama-3.1-8b", "--gpu", "h100-sxm")


def command(*words: object) -> list[str]:
    """Return the words that start Paceline's command line in this interpreter."""
    return [sys.executable, "-m", "paceline", *map(str, words)]
