"""The figures of a GPU that serving costs depend on."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from paceline import _check, catalog
from paceline._arguments import typed
from paceline._toml import build, dump, parse, table
from paceline.errors import ConfigError
from paceline.hardware.efficiency import Efficiency
from paceline.hardware.energy import Energy

__all__ = ["Gpu", "gpu_from_table", "gpu_names"]

_LINKS = ("nvlink", "infinity_fabric", "pcie")


def gpu_names() -> tuple[str, ...]:
    """Return the names of the GPUs that come with Paceline.

    Examples
    --------
    >>> "h100-sxm" in gpu_names()
    True
    """
    return catalog.names("gpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """The figures of a GPU.

    Parameters
    ----------
    name
        Its name in reports.
    device
        Its name in the driver.
    memory_bytes
        Memory as CUDA reports it, of which vLLM takes a share.
    datasheet_memory_bytes
        Memory as the datasheet gives it.
    bandwidth_bytes_per_s
        Bandwidth of that memory.
    bf16_flop_per_s
        Peak of 16-bit tensor arithmetic with 32-bit sums, without sparsity; float16 is the same.
    fp32_flop_per_s
        Peak of 32-bit arithmetic outside tensor cores; ``None``: not known, 32-bit matrices count as 16-bit.
    fp8_flop_per_s
        Peak of 8-bit tensor arithmetic, likewise; ``None`` if the GPU has none.
    fp4_flop_per_s
        The same of 4-bit numbers (NVFP4); ``None`` if the GPU has none.
    link
        Its connection to other GPUs: ``"nvlink"``, ``"infinity_fabric"`` or ``"pcie"``.
    link_bytes_per_s
        Bandwidth of that connection, in one direction.
    link_peers
        Other GPUs that have an equal part of that bandwidth each, on a link of their own; ``None`` where all
        of it is between any two GPUs, through a switch.
    pcie_bytes_per_s
        Bandwidth to the host, in one direction.
    tdp_w
        Power limit, in watts.
    efficiency
        The share of these figures that kernels reach; ``None`` if not known.
    energy
        The energy that it uses; ``None`` if not known.

    Raises
    ------
    ConfigError
        If a figure is not above 0 or the link is unknown.

    Examples
    --------
    >>> gpu = Gpu.load("h100-sxm")
    >>> gpu.bandwidth_bytes_per_s, gpu.efficiency.matmul
    (3350000000000.0, 0.758)
    """

    name: str
    device: str
    memory_bytes: int
    datasheet_memory_bytes: int
    bandwidth_bytes_per_s: float
    bf16_flop_per_s: float
    fp32_flop_per_s: float | None = None
    fp8_flop_per_s: float | None = None
    fp4_flop_per_s: float | None = None
    link: str
    link_bytes_per_s: float
    link_peers: int | None = None
    pcie_bytes_per_s: float
    tdp_w: float
    efficiency: Efficiency | None = None
    energy: Energy | None = None

    def __post_init__(self) -> None:
        _check.text("name of a GPU", self.name)
        for field in ("memory_bytes", "datasheet_memory_bytes"):
            _check.count(f"{field} of GPU {self.name!r}", getattr(self, field))
        figures = [
            "bandwidth_bytes_per_s",
            "bf16_flop_per_s",
            "link_bytes_per_s",
            "pcie_bytes_per_s",
            "tdp_w",
        ]
        other = ("fp32_flop_per_s", "fp8_flop_per_s", "fp4_flop_per_s")
        figures += [name for name in other if getattr(self, name) is not None]
        for field in figures:
            _check.positive(f"{field} of GPU {self.name!r}", getattr(self, field))
        link: object = self.link
        if not isinstance(link, str) or link not in _LINKS:
            raise ConfigError(
                f"link of GPU {self.name!r} must be one of {', '.join(_LINKS)}, was {_check.said(link)}"
            )
        if self.link_peers is not None:
            _check.count(f"link_peers of GPU {self.name!r}", self.link_peers)
        for name, value, kind in (
            ("efficiency", self.efficiency, Efficiency),
            ("energy", self.energy, Energy),
        ):
            right = f"an {kind.__name__} or None"
            _check.instance_of(f"{name} of GPU {self.name!r}", value, (kind, type(None)), right)

    @classmethod
    @typed()
    def load(cls, name: str) -> Gpu:
        """Return a GPU that comes with Paceline.

        Raises
        ------
        ConfigError
            If there is no GPU of that name; the message names close ones.
        """
        return _loaded(name)

    @typed()
    def link_among(self, gpus: int) -> float:
        """Return the bandwidth of its connection to the others of ``gpus`` GPUs, in one direction.

        Examples
        --------
        >>> mesh = Gpu.load("mi300x")    # seven links of 64 GB/s, one to each other GPU
        >>> [mesh.link_among(gpus) / 1e9 for gpus in (2, 4, 8)]
        [64.0, 192.0, 448.0]
        """
        _check.count("gpus", gpus)
        if self.link_peers is None or gpus == 1:
            return self.link_bytes_per_s
        return self.link_bytes_per_s * min(gpus - 1, self.link_peers) / self.link_peers

    def to_toml(self) -> str:
        """Return the GPU as the text of a TOML file."""
        return dump(table(self))

    @classmethod
    @typed()
    def from_toml(cls, text: str) -> Gpu:
        """Read what :meth:`to_toml` wrote."""
        return gpu_from_table(parse(text, "a GPU"), "a GPU")


@functools.lru_cache(maxsize=256)
def _loaded(name: str) -> Gpu:
    return gpu_from_table({"name": name, **catalog.load("gpu", name)}, f"GPU {name!r}")


@typed()
def gpu_from_table(content: dict[str, Any], what: str) -> Gpu:
    """Make a GPU from a TOML table; ``what`` names it in errors."""
    fields = dict(content)
    if "efficiency" in fields:
        fields["efficiency"] = build(Efficiency, fields["efficiency"], f"efficiency of {what}")
    if "energy" in fields:
        fields["energy"] = build(Energy, fields["energy"], f"energy of {what}")
    return build(Gpu, fields, what)
