"""The schedulers of a policy: one for all instances, or one for each pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from paceline._check import said
from paceline.errors import PolicyError
from paceline.policy.expressions.fields import meaning_of
from paceline.policy.expressions.tree import Field
from paceline.policy.flips import Flip
from paceline.policy.handover import Handover
from paceline.policy.pools import Pools
from paceline.policy.scheduler import Scheduler
from paceline.policy.stages import Recompute
from paceline.policy.wire import Monitors, Rules, expressions_in

__all__ = ["Schedulers"]


@dataclass(frozen=True, slots=True)
class Schedulers:
    """The scheduler of each pool with instances at the start; of one pool, "", if all are alike."""

    by_pool: tuple[tuple[str, Scheduler], ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, given: object, pools: Pools | None) -> Schedulers:
        """Return the schedulers of a policy, given as one or by the names of pools.

        Raises
        ------
        PolicyError
            If a pool with instances has none, or a name is not that of such a pool.
        """
        if isinstance(given, Scheduler):
            return cls((("", given),), (2**32,))
        if not isinstance(given, Mapping) or not all(isinstance(each, Scheduler) for each in given.values()):
            raise PolicyError(
                f"scheduler must be a Scheduler, or one for each pool by its name, was {said(given)}"
            )
        sizes = {} if pools is None else {pool: size for pool, size in pools.sizes.items() if size > 0}
        if not sizes or set(given) != set(sizes):
            wanted = ", ".join(sizes) if sizes else "none: the policy has no pools"
            raise PolicyError(
                f"scheduler must have one for each pool that has instances at the start ({wanted}), "
                f"had {', '.join(map(str, given))}"
            )
        return cls(tuple((pool, given[pool]) for pool in sizes), tuple(sizes.values()))

    @property
    def several(self) -> tuple[Scheduler, ...]:
        """The schedulers, in the order of the pools."""
        return tuple(scheduler for _, scheduler in self.by_pool)

    def of_instance(self, index: int) -> Scheduler:
        """Return the scheduler of an instance.

        Raises
        ------
        PolicyError
            If the pools have fewer instances.
        """
        left = index
        for size, scheduler in zip(self.sizes, self.several, strict=True):
            if left < size:
                return scheduler
            left -= size
        raise PolicyError(f"instance must be one of the {sum(self.sizes)} of the policy's pools, was {index}")

    def check_classes(self, rules: Rules, monitors: Monitors) -> None:
        """Refuse rules that read the classes of schedulers of which the classes differ.

        Raises
        ------
        PolicyError
            If there is such a rule.
        """
        classes = {tuple(each.name for each in scheduler.classes) for scheduler in self.several}
        if len(classes) == 1:
            return
        for expression in expressions_in(rules, monitors):
            for part in expression.walk():
                if isinstance(part, Field) and meaning_of(part.space, part.name).takes == "class":
                    had = "; ".join(f"{pool}: {_named(scheduler)}" for pool, scheduler in self.by_pool)
                    raise PolicyError(
                        f"{part!r} needs schedulers with the same classes in every pool, as a rule reads "
                        f"it of any instance; had {had}"
                    )

    def check_loras(self, *, migrates: bool) -> None:
        """Refuse a limit of adapters where requests migrate.

        Raises
        ------
        PolicyError
            If there is one.
        """
        limited = next((each.loras for each in self.several if each.loras is not None), None)
        if migrates and limited is not None:
            raise PolicyError(
                "loras of a scheduler must be None where requests migrate, as one that comes with its KV is "
                f"not passed over, was {limited!r}"
            )

    def _check_swaps(self, *, reserves: bool, monitored: bool) -> None:
        """Refuse what a hand-over beside a reserve is needed for, or monitors that migrate requests exclude.

        Raises
        ------
        PolicyError
            If there is one.
        """
        for each in self.several:
            swaps = each.output_reserve is not None and not isinstance(each.preemption, Recompute)
            if swaps and not reserves:
                raise PolicyError(
                    "output_reserve must be None beside a Swap unless a handover has reserve_tokens, beside "
                    f"which requests are swapped in, was {each.output_reserve!r}"
                )
            if each.unseen_ends and monitored:
                raise PolicyError("unseen_ends must be False where monitors migrate requests, was True")

    def check_trees(self, handover: Handover | None, *, moves: bool, monitored: bool) -> None:
        """Refuse radix trees of prefixes, and tokens that count late, where requests are not handed over.

        Raises
        ------
        PolicyError
            If there is one.
        """
        reserves = handover is not None and handover.reserve_tokens is not None
        self._check_swaps(reserves=reserves, monitored=monitored)
        migrates, handed_over = moves or monitored, handover is not None
        caches = [each.prefix_cache for each in self.several if each.prefix_cache is not None]
        tree = next((cache.tree for cache in caches if cache.tree is not None), None)
        if migrates and not handed_over and tree is not None:
            raise PolicyError(
                "tree of prefix_cache must be None where requests migrate without a handover, whose blocks "
                f"would be in the trees of two instances, was {tree!r}"
            )
        if migrates and not handed_over and any(each.drop_unseen for each in self.several):
            raise PolicyError(
                "drop_unseen of a scheduler must be False where requests migrate without a handover, whose "
                "tokens would not be known as they are routed, was True"
            )
        tiers = next((cache.tiers for cache in caches if cache.tree is not None and cache.tiers), None)
        if migrates and tiers is not None:
            raise PolicyError(
                f"tiers of a prefix_cache with a tree must be empty where requests migrate, was {tiers!r}"
            )

    def check_flips(self, pools: Pools, flips: Iterable[Flip]) -> None:
        """Refuse flips between pools with different schedulers: an instance keeps its own.

        Raises
        ------
        PolicyError
            If an instance may come from one such pool to another, by one flip or by
            several.
        """
        if len(self.by_pool) == 1:
            return
        joined = {pool: {pool} for pool in pools.sizes}
        for flip in flips:
            for pool in pools._left_by(flip):
                both = joined[pool] | joined[flip.to]
                joined.update(dict.fromkeys(both, both))
                found = {name: scheduler for name, scheduler in self.by_pool if name in both}
                if any(scheduler != next(iter(found.values())) for scheduler in found.values()):
                    raise PolicyError(
                        f"{flip!r} must be between pools with equal schedulers, as an instance keeps the one "
                        f"of its first pool; those of {' and '.join(found)} differ (if its rule cannot pick "
                        "from one of them, say so by within)"
                    )


def _named(scheduler: Scheduler) -> str:
    return ", ".join(each.name for each in scheduler.classes) or "none"
