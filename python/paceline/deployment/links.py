"""The network between the instances of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline.deployment.medium import Medium, check_speed, loaded, medium_of
from paceline.deployment.ports import MOST_INSTANCES, Pair, Port
from paceline.errors import ConfigError

__all__ = ["Links"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields(but=("fabric", "inner", "nodes", "pairs", "port", "ports", "uplink"))
class Links:
    """The network between instances: a port each, on which transfers queue, and what ports share.

    A transfer occupies all media that it crosses, alone, for as long as the slowest of them needs for its
    bytes. It takes the earliest time at which all of them are free for so long, and is delivered a latency
    later, the largest of its media. Ports and uplinks work in both directions at the same time.

    Parameters
    ----------
    gbps
        Gigabits a second (10**9 bits) of an instance's port, each way.
    latency_s
        Seconds from when the last byte is sent until it is received.
    port
        The port in place of ``gbps`` and ``latency_s``: a :class:`Medium` or the name of a link
        (:func:`link_names`), as in the other fields. If an instance has several GPUs with a link each, its
        port is all of them: ``Medium.load("infiniband-ndr").beside(8)``.
    nodes
        The instances of each node, counted from 0, each instance in one node. None: each instance is a node.
    per_node
        In place of ``nodes``: so many consecutive instances are a node.
    inner
        A second port of each instance, to instances of its node. None: those use the one port.
    uplink
        What the instances of a node share on the way to other nodes, each way. None: nothing.
    fabric
        What all transfers between nodes share. None: nothing.
    ports
        Instances with ports of their own, in heterogeneous clusters.
    pairs
        Pairs of instances with a medium of their own.

    Raises
    ------
    ConfigError
        If a figure is out of range, or a field contradicts another.

    Examples
    --------
    >>> Links(gbps=100).to_wire()
    {'bytes_per_s': 12500000000.0, 'latency': 0}

    Two nodes of four instances, NVLink inside, and a network card of 400 Gb/s for each node:

    >>> links = Links(port="pcie-5-x16", per_node=4, inner="nvlink-h100", uplink="infiniband-ndr")
    >>> links.seconds(0, 1, kv_bytes=10**9) < 0.003
    True
    >>> round(links.seconds(0, 4, kv_bytes=10**9), 3)
    0.02
    """

    gbps: float | None = None
    latency_s: float = 0.0
    port: str | Medium | None = None
    nodes: tuple[tuple[int, ...], ...] | None = None
    per_node: int | None = None
    inner: str | Medium | None = None
    uplink: str | Medium | None = None
    fabric: str | Medium | None = None
    ports: tuple[Port, ...] = ()
    pairs: tuple[Pair, ...] = ()

    def __post_init__(self) -> None:
        if (self.gbps is None) == (self.port is None):
            raise ConfigError(
                f"Links must have one of gbps and port, was gbps={self.gbps!r}, port={_check.said(self.port)}"
            )
        if self.gbps is not None:
            check_speed("Links", self.gbps, self.latency_s)
        elif self.latency_s:
            raise ConfigError(
                f"latency_s of Links must be that of the port, where one is given, was {self.latency_s}"
            )
        for name in ("port", "inner", "uplink", "fabric"):
            medium_of(getattr(self, name), f"{name} of Links")
        for name, kind in (("ports", Port), ("pairs", Pair)):
            object.__setattr__(self, name, _several(getattr(self, name), kind, f"{name} of Links"))
        _once([port.instance for port in self.ports], "instance of ports of Links")
        _once([(pair.source, pair.target) for pair in self.pairs], "entry of pairs of Links")
        if self.per_node is not None:
            _check.count("per_node of Links", self.per_node)
        if self.nodes is not None:
            if self.per_node is not None:
                raise ConfigError("Links must have one of nodes and per_node, had both")
            object.__setattr__(self, "nodes", _nodes(self.nodes))

    def check(self, instances: int) -> None:
        """Refuse links that do not fit a cluster of so many instances.

        Raises
        ------
        ConfigError
            If a node, port or pair names an instance that there is not, or an instance has no node.
        """
        named = [("ports", port.instance) for port in self.ports]
        named += [("pairs", each) for pair in self.pairs for each in (pair.source, pair.target)]
        named += [("nodes", each) for node in self.nodes or () for each in node]
        for name, instance in named:
            if instance >= instances:
                raise ConfigError(
                    f"{name} of Links must name instances of the cluster, 0 to {instances - 1}, "
                    f"was {instance}"
                )
        if self.nodes is not None:
            missing = sorted(set(range(instances)) - {each for node in self.nodes for each in node})
            if missing:
                raise ConfigError(
                    f"nodes of Links must have each instance of the cluster, lacked {_check.said(missing)}"
                )

    @typed()
    def path(self, source: int, target: int) -> tuple[Medium, ...]:
        """Return the media that a transfer from one instance to another crosses."""
        for pair in self.pairs:
            if (pair.source, pair.target) == (source, target):
                return (loaded(pair.medium),)
        near = self._node(source) == self._node(target)
        inner = [self._own(instance, "inner", self.inner) for instance in (source, target)]
        if near and None not in inner:
            return tuple(loaded(each) for each in inner if each is not None)
        plain = self._port()
        shared = () if near else (self.uplink, self.uplink, self.fabric)
        between = [self._own(instance, "outer", plain) for instance in (source, target)]
        return tuple(loaded(each) for each in (*between, *shared) if each is not None)

    @typed()
    def seconds(self, source: int, target: int, *, kv_bytes: int) -> float:
        """Return the time of a transfer that waits for no other, latency included.

        Examples
        --------
        >>> Links(gbps=8, latency_s=0.5).seconds(0, 1, kv_bytes=2 * 10**9)
        2.5
        """
        path = self.path(source, target)
        return max(medium.seconds(kv_bytes) for medium in path) + max(medium.latency_s for medium in path)

    @typed()
    def to_wire(self, *, instances: int | None = None) -> dict[str, Any]:
        """Return the links as the engine reads them.

        Parameters
        ----------
        instances
            How many the cluster has; needed with ``per_node``.
        """
        wire: dict[str, Any] = self._port().to_wire()
        if self.nodes is not None:
            of = {instance: node for node, several in enumerate(self.nodes) for instance in several}
            wire["nodes"] = [of[instance] for instance in sorted(of)]
        elif self.per_node is not None:
            if instances is None:
                raise ConfigError("instances of to_wire() must be given for Links with per_node, was None")
            wire["nodes"] = [instance // self.per_node for instance in range(instances)]
        for name in ("inner", "uplink", "fabric"):
            given = getattr(self, name)
            if given is not None:
                wire[name] = loaded(given).to_wire()
        if self.ports:
            wire["ports"] = [port.to_wire() for port in self.ports]
        if self.pairs:
            wire["pairs"] = [pair.to_wire() for pair in self.pairs]
        return wire

    def _port(self) -> Medium:
        if self.port is not None:
            return loaded(self.port)
        assert self.gbps is not None, "Invariant: one of gbps and port is given"
        return Medium(gbps=self.gbps, latency_s=self.latency_s)

    def _own(self, instance: int, name: str, other: str | Medium | None) -> str | Medium | None:
        own = [getattr(port, name) for port in self.ports if port.instance == instance]
        return own[0] if own and own[0] is not None else other

    def _node(self, instance: int) -> int:
        if self.nodes is not None:
            return next((at for at, node in enumerate(self.nodes) if instance in node), -1 - instance)
        return instance if self.per_node is None else instance // self.per_node


def _several(given: object, kind: type, what: str) -> tuple[Any, ...]:
    if not isinstance(given, tuple | list) or not all(isinstance(each, kind) for each in given):
        raise ConfigError(f"{what} must be a list of {kind.__name__}, was {_check.said(given)}")
    return tuple(given)


def _nodes(given: object) -> tuple[tuple[int, ...], ...]:
    """Return nodes as tuples; each instance must be in one."""
    if not isinstance(given, tuple | list) or not all(isinstance(node, tuple | list) for node in given):
        raise ConfigError(
            f"nodes of Links must be lists of instances, such as [[0, 1], [2, 3]], was {_check.said(given)}"
        )
    nodes = tuple(tuple(node) for node in given)
    for node in nodes:
        if not node:
            raise ConfigError("a node of Links must have at least one instance, had none")
        for instance in node:
            _check.count("an instance of nodes of Links", instance, least=0, most=MOST_INSTANCES)
    _once([instance for node in nodes for instance in node], "instance of nodes of Links")
    return nodes


def _once(values: list[Any], what: str) -> None:
    """Refuse values that are given twice."""
    seen = set()
    for value in values:
        if value in seen:
            raise ConfigError(f"an {what} must be named once, {value} was named twice")
        seen.add(value)
