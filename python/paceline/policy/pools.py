"""Pools: groups of the instances of a cluster."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy.checks import whole

__all__ = ["Pools"]


class Pools:
    """Divide the instances of a cluster into pools, in their order.

    Parameters
    ----------
    **sizes
        Instances of each pool, by its name: the first instances are in the first
        pool, the next in the second.

    Raises
    ------
    PolicyError
        If there is no pool, or a pool has no instance.

    Examples
    --------
    >>> Pools(prefill=4, decode=4).names
    ('prefill', 'decode')
    """

    __slots__ = ("_sizes",)

    @typed(PolicyError)
    def __init__(self, **sizes: int) -> None:
        if not sizes:
            raise PolicyError("Pools must have at least one pool, had none: Pools(prefill=4, decode=4)")
        for name, size in sizes.items():
            whole(f"instances of pool {name!r}", size)
        self._sizes = tuple(sizes.items())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the pools, in order."""
        return tuple(name for name, _ in self._sizes)

    @property
    def sizes(self) -> dict[str, int]:
        """Instances of each pool."""
        return dict(self._sizes)

    @typed(PolicyError)
    def roles(self, instances: int) -> list[int]:
        """Return the code of the pool of each instance.

        Raises
        ------
        PolicyError
            If the sizes do not add up to the number of instances.
        """
        wanted = sum(self.sizes.values())
        if wanted != instances:
            raise PolicyError(f"{self!r} needs a cluster of {wanted} instances, was given one of {instances}")
        return [code for code, (_, size) in enumerate(self._sizes) for _ in range(size)]

    def __eq__(self, other: object) -> bool:
        return self._sizes == other._sizes if isinstance(other, Pools) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._sizes)

    def __repr__(self) -> str:
        return f"Pools({', '.join(f'{name}={size}' for name, size in self._sizes)})"
