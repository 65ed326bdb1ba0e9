"""The time of an all-reduce: the algorithms that engines choose from, each linear in the bytes.

Two libraries reduce in a serving engine, and each chooses by size and ranks:

- *vLLM's custom kernel* (``csrc/custom_all_reduce.cuh``, ``allreduce``; SGLang and nano-vllm have the same):
  one-shot for two ranks, and for small messages where all ranks are joined by NVLink (below 512 KiB up to 4
  ranks, 256 KiB up to 8); else two-shot, a reduce-scatter and an all-gather. More than two ranks without
  NVLink do not use it (``custom_all_reduce.py``), and neither do large messages
  (``all_reduce_utils.py::CUSTOM_ALL_REDUCE_MAX_SIZES``; 8 MiB where no entry is).
- *NCCL* (2.28.3, ``src/graph/tuning.cc``, ``ncclTopoTuneModel``) takes the least of a latency plus bytes over
  bandwidth, over ring and tree and over its three protocols. The latency is a base and one of each hop:
  ``2 * (ranks - 1)`` hops of a ring, and as many of a tree in one node, where it is a chain.

Both choose the fastest algorithm, so the model is the least over all lines; it has no thresholds of size, and
vLLM's kernel is left out where it cannot run. With the catalog's H100 the least changes from one-shot to
two-shot at 850 KiB on 4 ranks and 240 KiB on 8, and to NCCL at 19 MiB on 2. ``python benches/all_reduce.py``
prints the errors against measured curves, by size.

Not modelled: NVLink SHARP (NVLS, multimem), which sums in the switch, NCCL's correction of trees by size, and
more than one node.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from paceline.hardware.efficiency import Efficiency

__all__ = ["Way", "all_reduce_ways", "gather_latency_s"]


class Way(NamedTuple):
    """One way to reduce: ``latency_s`` plus ``s_per_byte`` for each byte of the message.

    ``name`` is one of ``one-shot``, ``two-shot``, or an algorithm of NCCL's with its protocol.
    """

    name: str
    latency_s: float
    s_per_byte: float


class _Protocol(NamedTuple):
    """Rows of NCCL's tables: seconds before any hop, of a hop, and the share of the ring's bandwidth."""

    base_s: float
    nvlink_hop_s: float
    pcie_hop_s: float
    share: float


# baseLatencies and hwLatencies, in microseconds there. Shares: `ncclTopoTuneModel`'s refinements of busBw.
_RING: Final = {
    "LL": _Protocol(6.6e-6, 0.6e-6, 1.0e-6, 0.5),
    "LL128": _Protocol(14.0e-6, 1.9e-6, 2.5e-6, 0.92),
    "Simple": _Protocol(8.4e-6, 3.4e-6, 5.7e-6, 1.0),
}
_TREE: Final = {
    "LL": _Protocol(6.8e-6, 0.6e-6, 1.0e-6, 0.92 / 3.8),
    "LL128": _Protocol(14.0e-6, 1.25e-6, 1.9e-6, 0.92 * 7 / 9),
    "Simple": _Protocol(8.4e-6, 4.0e-6, 4.0e-6, 0.92),
}
# llMaxBws, as a share of the link: 141 GB/s of Hopper's 450 and 282 of Blackwell's 900. Ampere's is 87.7 of
# 300, 0.292.
_LL_MOST: Final = 0.313


def all_reduce_ways(
    efficiency: Efficiency, *, ranks: int, link: str, link_bytes_per_s: float, kernel: bool = True
) -> tuple[Way, ...]:
    """Return the ways in which ``ranks`` can reduce a message; none for one rank.

    A way that is slower than another at every size is left out.

    Parameters
    ----------
    efficiency
        What is reached of the link, and how long the smallest messages take.
    ranks
        Ranks that take part, all in one node.
    link, link_bytes_per_s
        As of a :class:`~paceline.hardware.Gpu`.
    kernel
        Whether vLLM's own kernel can be used; else NCCL alone.

    Examples
    --------
    >>> from paceline.hardware import Gpu
    >>> gpu = Gpu.load("h100-sxm")
    >>> ways = all_reduce_ways(gpu.efficiency, ranks=4, link=gpu.link, link_bytes_per_s=gpu.link_bytes_per_s)
    >>> def cheapest(size):
    ...     return min(ways, key=lambda way: way.latency_s + size * way.s_per_byte).name
    >>> [cheapest(size) for size in (2**14, 2**20, 2**26)]
    ['one-shot', 'two-shot', 'ring Simple']
    """
    if ranks == 1:
        return ()
    ways = _nccl(efficiency, ranks, link, link_bytes_per_s)
    one_shot = efficiency.one_shot * link_bytes_per_s
    if kernel and (link != "pcie" or ranks == 2):
        ways.append(Way("one-shot", efficiency.one_shot_latency_s, (ranks - 1) / one_shot))
    if kernel and link != "pcie" and ranks > 2:
        # The barriers of two kernels, and the bytes of a ring.
        share = 2 * (ranks - 1) / ranks
        ways.append(Way("two-shot", 2 * efficiency.one_shot_latency_s, share / one_shot))
    return tuple(way for way in ways if not any(_beats(other, way) for other in ways))


def gather_latency_s(efficiency: Efficiency, *, ranks: int, link: str) -> float:
    """Return the seconds of the smallest all-gather, reduce-scatter or send: half of a ring's hops.

    Parameters
    ----------
    efficiency, ranks, link
        As of :func:`all_reduce_ways`; a send is between two ranks.
    """
    if efficiency.ring_latency_s is not None:
        return efficiency.ring_latency_s / 2
    protocol = _RING["LL"]
    return protocol.base_s + (max(ranks, 2) - 1) * _hop_s(protocol, link)


def _nccl(efficiency: Efficiency, ranks: int, link: str, link_bytes_per_s: float) -> list[Way]:
    ring = 2 * (ranks - 1) / ranks
    bandwidth = efficiency.ring * link_bytes_per_s
    if efficiency.ring_latency_s is not None:
        return [Way("ring", efficiency.ring_latency_s, ring / bandwidth)]
    hops = 2 * (ranks - 1)
    ways = []
    for algorithm, protocols, moved in (("ring", _RING, ring), ("tree", _TREE, 2.0)):
        for name, protocol in protocols.items():
            if name == "LL128" and link == "pcie":
                continue  # needs NVLink all the way (typeIntra <= PATH_NVB)
            reached = protocol.share * bandwidth
            if name == "LL":
                reached = min(reached, _LL_MOST * link_bytes_per_s)
            latency = protocol.base_s + hops * _hop_s(protocol, link)
            ways.append(Way(f"{algorithm} {name}", latency, moved / reached))
    return ways


def _hop_s(protocol: _Protocol, link: str) -> float:
    return protocol.nvlink_hop_s if link != "pcie" else protocol.pcie_hop_s


def _beats(one: Way, other: Way) -> bool:
    """Whether a way is at least as fast as another at every size, and not the same."""
    return one[1:] != other[1:] and one.latency_s <= other.latency_s and one.s_per_byte <= other.s_per_byte
