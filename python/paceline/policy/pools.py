"""Pools: groups of the instances of a cluster, and instances on their way from one to another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from paceline._arguments import typed
from paceline._check import said
from paceline.errors import PolicyError
from paceline.policy.checks import duration, whole
from paceline.policy.expressions.fields import meaning_of
from paceline.policy.expressions.scope import Scope, condition
from paceline.policy.expressions.tree import Expr, Field, lift
from paceline.policy.expressions.wire import Names, spelled, to_wire
from paceline.policy.flips import Flip, pools_of
from paceline.policy.value import shown, structure

__all__ = ["Pools"]

_COUNTS = (
    "prefilling_requests",
    "decoding_requests",
    "requests",
    "running",
    "waiting",
    "swapped",
    "total_blocks",
    "block_tokens",
    "index",
)
"""Fields that a condition of leaving instances may read: they change only at events of the instance."""


class Pools:
    """Divide the instances of a cluster into pools, in their order.

    Parameters
    ----------
    leaving
        Pools for instances on their way from one pool to another, by name:
        ``"a→b"``, or ``"a->b"``. Each has a condition over `inst`, at which an
        instance joins ``b``, or a delay in seconds, after which it does. `flip`
        puts instances there. Without such a pool, an instance that is flipped
        joins ``b`` at once.
    switched_off
        Pools whose instances are switched off and draw no power; a result leaves out
        their idle power. Instances on their way from there draw idle power, as one
        that starts up does. No rule may route to these pools, and an instance joins
        one only when a condition of `leaving` holds, such as ``inst.requests == 0``.
    **sizes
        Instances of each pool at the start, by its name: the first instances are
        in the first pool, the next in the second. A pool may be empty at the
        start if a `flip` leads to it.

    Raises
    ------
    PolicyError
        If there is no pool or no instance, or a leaving pool is between pools that
        do not exist, or has a condition that reads anything but the counts of
        requests; if a pool that is switched off does not exist.

    Examples
    --------
    >>> Pools(prefill=4, decode=4).names
    ('prefill', 'decode')
    >>> from paceline import inst
    >>> Pools(prefill=4, decode=4, leaving={"prefill→decode": inst.prefilling_requests == 0}).names
    ('prefill', 'decode', 'prefill→decode')
    """

    __slots__ = ("_leaving", "_sizes", "_switched_off")

    @typed(PolicyError)
    def __init__(
        self,
        *,
        leaving: Mapping[str, Expr | float] | None = None,
        switched_off: str | Sequence[str] = (),
        **sizes: int,
    ) -> None:
        if not sizes:
            raise PolicyError("Pools must have at least one pool, had none: Pools(prefill=4, decode=4)")
        for name, size in sizes.items():
            whole(f"instances of pool {name!r}", size, least=0)
        if sum(sizes.values()) == 0:
            raise PolicyError(f"Pools must have at least one instance, had none: {said(sizes)}")
        self._sizes = tuple(sizes.items())
        self._leaving = MappingProxyType(
            {spelled(name): _done(name, done) for name, done in (leaving or {}).items()}
        )
        for name in self._leaving:
            self.ends(name)
        self._switched_off = (switched_off,) if isinstance(switched_off, str) else tuple(switched_off)
        if unknown := [name for name in self._switched_off if name not in sizes]:
            raise PolicyError(
                f"switched_off of Pools must name pools of it ({', '.join(sizes)}), was {said(unknown[0])}"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the pools, in order; those of leaving instances last."""
        return (*self.sizes, *self._leaving)

    @property
    def sizes(self) -> dict[str, int]:
        """Instances of each pool at the start, without the pools of leaving instances."""
        return dict(self._sizes)

    @property
    def leaving(self) -> Mapping[str, Expr | float]:
        """The condition or the delay of each pool of leaving instances."""
        return self._leaving

    @property
    def switched_off(self) -> tuple[str, ...]:
        """The pools whose instances are switched off."""
        return self._switched_off

    @typed(PolicyError)
    def ends(self, name: str) -> tuple[str, str]:
        """Return the pools that an instance of a leaving pool comes from and goes to.

        Raises
        ------
        PolicyError
            If the name is not that of two pools with an arrow between them.
        """
        parts = tuple(spelled(name).split("→"))
        if len(parts) != 2 or parts[0] == parts[1] or not set(parts) <= set(self.sizes):
            known = ", ".join(self.sizes)
            raise PolicyError(
                f"leaving of Pools must have names such as 'a→b' of two of its pools ({known}), was {name!r}"
            )
        return parts

    @typed(PolicyError)
    def roles(self, instances: int) -> list[int]:
        """Return the code of the pool of each instance at the start.

        Raises
        ------
        PolicyError
            If the sizes do not add up to the number of instances.
        """
        wanted = sum(self.sizes.values())
        if wanted != instances:
            raise PolicyError(f"{self!r} needs a cluster of {wanted} instances, was given one of {instances}")
        return [code for code, (_, size) in enumerate(self._sizes) for _ in range(size)]

    def leaving_to_wire(self, ticks_per_s: float) -> list[dict[str, Any]]:
        """Return the pools of leaving instances as the engine reads them."""
        names = Names(pools=self.names)
        wire = []
        for name, done in self._leaving.items():
            role, source, target = (names.code("role", pool) for pool in (name, *self.ends(name)))
            ends = (
                {"done": to_wire(done, names)}
                if isinstance(done, Expr)
                else {"delay": round(done * ticks_per_s)}
            )
            wire.append({"role": role, "from": source, "to": target, **ends})
        return wire

    def _never_empty(self, pools: frozenset[str], flips: Iterable[Flip]) -> bool:
        """Whether there is an instance in one of some pools at every moment.

        A pool that has an instance at the start, and that each flip leaves one in,
        has one in it or on its way to it.
        """
        if not pools <= set(self.names):
            return True  # an unknown name is refused elsewhere
        several = tuple(flips)
        for pool, size in self._sizes:
            left = [flip for flip in several if pool in self._left_by(flip)]
            # The instance that stays may have joined since, or be on its way.
            arriving = {name for name in self._leaving if left and self.ends(name)[1] == pool}
            if size > 0 and all(flip.keep > 0 for flip in left) and {pool, *arriving} <= pools:
                return True
        return False

    def _check_flips(self, flips: Iterable[Flip]) -> None:
        """Refuse pools that are empty and stay so.

        Raises
        ------
        PolicyError
            If a pool has no instance, and no flip leads to it; if an instance may be
            switched off before its requests have ended.
        """
        several = tuple(flips)
        for flip in several:
            self._check_switching_off(flip)
        reached = {flip.to for flip in several}
        for pool, size in self._sizes:
            if size == 0 and pool not in reached:
                raise PolicyError(
                    f"pool {pool!r} must have an instance, or a flip(..., to={pool!r}) to it, had 0"
                )

    def _check_switching_off(self, flip: Flip) -> None:
        if flip.to not in self._switched_off:
            return
        for source in sorted(self._left_by(flip)):
            way = f"{source}→{flip.to}"
            if not isinstance(self._leaving.get(way), Expr):
                raise PolicyError(
                    f"leaving of Pools must have {way!r} with a condition, as {flip.to!r} is switched off: "
                    f'leaving={{"{way}": inst.requests == 0}}'
                )

    def _left_by(self, flip: Flip) -> frozenset[str]:
        """Return the pools that an instance may leave by a flip."""
        sources = pools_of(flip.of)
        if sources is None:
            return frozenset(self.sizes) - {flip.to}
        return frozenset(self.ends(name)[1] if name in self._leaving else name for name in sources) - {
            flip.to
        }

    def __eq__(self, other: object) -> bool:
        return self._structure() == other._structure() if isinstance(other, Pools) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._structure())

    def _structure(self) -> tuple[object, ...]:
        return (self._sizes, structure(self._leaving), self._switched_off)

    def __reduce__(self) -> tuple[object, ...]:
        return (_again, (self._sizes, tuple(self._leaving.items()), self._switched_off))

    def __repr__(self) -> str:
        parts = [f"{name}={size}" for name, size in self._sizes]
        if self._leaving:
            parts.append(f"leaving={shown(self._leaving)}")
        if self._switched_off:
            off = self._switched_off
            parts.append(f"switched_off={shown(off[0] if len(off) == 1 else off)}")
        return f"Pools({', '.join(parts)})"


def _again(
    sizes: tuple[tuple[str, int], ...],
    leaving: tuple[tuple[str, Expr | float], ...],
    switched_off: tuple[str, ...] = (),
) -> Pools:
    """Return the pools that were pickled."""
    return Pools(leaving=dict(leaving), switched_off=switched_off, **dict(sizes))


def _done(name: str, done: object) -> Expr | float:
    """Check the condition or the delay of a pool of leaving instances."""
    what = f"leaving[{name!r}] of Pools"
    if not isinstance(done, Expr):
        if isinstance(done, bool) or not isinstance(done, int | float):
            raise PolicyError(f"{what} must be a condition or a delay in seconds, was {said(done)}")
        duration(what, done)
        return float(done)
    checked = condition(lift(done), what, Scope.LEAVING)
    for part in checked.walk():
        if (
            isinstance(part, Field)
            and part.space == "inst"
            and meaning_of("inst", part.name).wire not in _COUNTS
        ):
            known = ", ".join(_COUNTS)
            raise PolicyError(
                f"{what} must read only fields that change with the requests of the instance ({known}), "
                f"was {done!r}"
            )
        if isinstance(part, Field) and part.space == "slo":
            raise PolicyError(f"{what} must not read {part!r}: write the number")
    return checked
