"""Seeded streams of random numbers, one a purpose.

The only source of randomness in a synthesis. Streams with different names are
independent, so adding a column draws nothing from another.
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np

from paceline.synthesis.stable import Floats

__all__ = ["PART", "Stream"]

# Numbers are drawn and transformed in parts that stay in a core's cache.
PART: Final = 1 << 14


class Stream:
    """Uniform numbers from PCG64, seeded by a number and a name.

    Rests on what numpy promises never to change (NEP 19): the raw output of PCG64 and the words of
    SeedSequence. The name goes in as a spawn key, the first 16 bytes of its SHA-256.

    Parameters
    ----------
    seed
        A whole number of at least 0.
    name
        What the numbers are for.
    """

    __slots__ = ("_bits",)

    def __init__(self, seed: int, name: str) -> None:
        words = np.frombuffer(hashlib.sha256(name.encode()).digest()[:16], dtype="<u4")
        key = tuple(int(word) for word in words)
        self._bits = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key))

    def uniforms(self, count: int) -> Floats:
        """Draw numbers strictly between 0 and 1: odd multiples of 2**-53."""
        drawn = (self._bits.random_raw(count) >> np.uint64(12)).astype(np.float64)
        drawn += 0.5
        drawn *= 2.0**-52
        return drawn
