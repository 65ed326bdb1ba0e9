"""What `paceline.plan` chooses from: kinds of instances, numbers of them, and their division into pools."""

from __future__ import annotations

import inspect
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from paceline import _check
from paceline.deployment import Instance
from paceline.errors import ConfigError
from paceline.planning.sizes import Counts
from paceline.policies.vllm import vllm
from paceline.policy import Policy

__all__ = ["Kind", "Layouts", "kinds_of", "layouts_of"]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of instance.

    Attributes
    ----------
    name
        Its name in the table.
    instance
        The instance.
    gpus
        GPUs of one.
    price
        Its price per hour; None if prices are not given.
    """

    name: str
    instance: Instance
    gpus: int
    price: float | None


@dataclass(frozen=True, slots=True)
class Layouts:
    """The policy for each division of instances into pools.

    Attributes
    ----------
    pools
        The names of the pools; one for a policy that depends on the number of instances only, or not at all.
    make
        Makes the policy for the instances of each pool.
    """

    pools: tuple[str, ...]
    make: Callable[[Counts], Policy]
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def policy(self, counts: Counts) -> Policy:
        """Return the policy for the instances of each pool. One thread at a time calls ``make``."""
        with self._lock:
            made: object = self.make(counts)
        if not isinstance(made, Policy):
            raise ConfigError(f"policy of plan() must return a Policy, was {_check.said(made)}")
        return made

    def options(self, instances: int) -> list[Counts]:
        """Return all divisions of a number of instances into pools of at least one."""
        return list(_divisions(instances, len(self.pools)))


def layouts_of(policy: Policy | Callable[..., Policy] | None, split: Sequence[str] | None) -> Layouts:
    """Read from a policy, or from the signature of a function that makes one, what it depends on.

    Parameters
    ----------
    policy
        A policy for any number of instances; or a function whose required parameters are the instances of
        each pool, or their number. A function with parameters ``prefill`` and ``decode`` is called with these
        also if they have defaults, and so is one with ``instances``.
    split
        The parameters that add up to the number of instances; None: read from the signature.

    Raises
    ------
    ConfigError
        If ``split`` names no parameters of the function.
    """
    if policy is None or isinstance(policy, Policy):
        fixed = vllm() if policy is None else policy
        if split is not None:
            raise ConfigError(f"split needs a policy that is a function of it, was {_check.said(split)}")
        return Layouts(("instances",), lambda _: fixed)
    made = policy
    parameters = inspect.signature(made).parameters
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names = [name for name, of in parameters.items() if of.kind in named]
    open_ended = any(of.kind is inspect.Parameter.VAR_KEYWORD for of in parameters.values())
    if split is not None:
        pools = tuple(split)
        unknown = [name for name in pools if name not in names and not open_ended]
        if not pools or unknown or len(set(pools)) < len(pools):
            raise ConfigError(
                f"split must name parameters of the policy, each once ({', '.join(names) or 'it has none'}), "
                f"was {_check.said(split)}"
            )
    elif {"prefill", "decode"} <= set(names):
        pools = ("prefill", "decode")
    else:
        pools = tuple(name for name in names if parameters[name].default is inspect.Parameter.empty)
        if not pools and "instances" in names:
            pools = ("instances",)
    if not pools:
        return Layouts(("instances",), lambda _: made())
    return Layouts(pools, lambda counts: made(**dict(zip(pools, counts, strict=True))))


def kinds_of(
    instances: Instance | Sequence[Instance] | Mapping[str, Instance], prices: Mapping[str, float] | None
) -> list[Kind]:
    """Return the kinds of instances with names and prices.

    Raises
    ------
    ConfigError
        If there is none, one is no instance, or a GPU has no price.
    """
    if isinstance(instances, Instance):
        instances = [instances]
    if isinstance(instances, Mapping):
        named = list(instances.items())
    else:
        given = list(instances)
        several = len({_model(each) for each in given}) > 1
        named = [(_name(index, each, several), each) for index, each in enumerate(given)]
        for index, (name, each) in enumerate(named):
            if any(name == other for other, _ in named[:index]):
                named[index] = (f"{name} ({index})", each)
    if not named:
        raise ConfigError("instances of plan() must be at least one Instance, were none")
    for name, each in named:
        if not isinstance(each, Instance):
            raise ConfigError(f"instances of plan(): {name} must be an Instance, was {_check.said(each)}")
    for gpu, price in (prices or {}).items():
        _check.not_negative(f"price of {gpu}", price)
    return [_kind(name, each, prices) for name, each in named]


def _kind(name: str, instance: Instance, prices: Mapping[str, float] | None) -> Kind:
    gpus = instance.tensor_parallel * instance.pipeline_parallel
    if prices is None:
        return Kind(name, instance, gpus, None)
    gpu = _gpu(instance)
    if gpu is None or gpu not in prices:
        raise ConfigError(
            f"prices must have the GPU of every kind: {name} is on {gpu or 'no named GPU'}, "
            f"prices are of {', '.join(prices) or 'none'}"
        )
    return Kind(name, instance, gpus, gpus * prices[gpu])


def _name(index: int, instance: object, with_model: bool) -> str:
    if not isinstance(instance, Instance):
        return f"instance {index}"
    gpu = _gpu(instance)
    if gpu is None:
        return f"instance {index}"
    split = (("tp", instance.tensor_parallel), ("pp", instance.pipeline_parallel))
    words = [f"{name}={ranks}" for name, ranks in split if ranks > 1]
    return " ".join([*([_model(instance)] if with_model else []), gpu, *words])


def _gpu(instance: Instance) -> str | None:
    gpu = instance.gpu
    return gpu if gpu is None or isinstance(gpu, str) else gpu.name


def _model(instance: object) -> str:
    model = instance.model if isinstance(instance, Instance) else None
    return "instance" if model is None else model if isinstance(model, str) else model.name


def _divisions(total: int, parts: int) -> Iterator[Counts]:
    """Yield the ways to write a number as an ordered sum of positive ones."""
    for cuts in itertools.combinations(range(1, total), parts - 1):
        ends = (0, *cuts, total)
        yield tuple(high - low for low, high in itertools.pairwise(ends))
