"""Values that several points use: each made once, and kept until the last point has used it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

__all__ = ["Shared"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Shared(Generic[K, V]):
    """Values by key. Threads that ask for a value while it is made wait for it.

    Parameters
    ----------
    uses
        How often each value is used. One that is used again after so many uses is made again.

    Examples
    --------
    >>> shared = Shared(uses=2)
    >>> shared.take("key", lambda: "made once"), shared.take("key", lambda: "not made again")
    ('made once', 'made once')
    >>> shared.release("key"), shared.release("key"), len(shared)
    (None, None, 0)
    """

    def __init__(self, uses: int) -> None:
        self._each = uses
        self._lock = threading.Lock()
        self._values: dict[K, Future[V]] = {}
        self._uses: dict[K, int] = {}

    def take(self, key: K, make: Callable[[], V]) -> V:
        """Return a value, made now if it was not before; an error in making it is raised for each use."""
        with self._lock:
            found = self._values.get(key)
            first = found is None
            value: Future[V] = Future() if found is None else found
            self._values[key] = value
        if first:
            try:
                value.set_result(make())
            except BaseException as error:
                value.set_exception(error)
        return value.result()

    def release(self, key: K) -> None:
        """End one use; after the last one the value is forgotten."""
        with self._lock:
            left = self._uses.pop(key, self._each) - 1
            if left > 0:
                self._uses[key] = left
            else:
                self._values.pop(key, None)

    def __len__(self) -> int:
        """Return how many values are kept."""
        return len(self._values)
