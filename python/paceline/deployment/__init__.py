"""The deployment that serves a trace: instances, the links between them, and their cluster."""

from __future__ import annotations

from paceline.deployment.balance import Balance
from paceline.deployment.cluster import Cluster
from paceline.deployment.cuda_graphs import CudaGraphs
from paceline.deployment.instance import Instance
from paceline.deployment.kv_memory import KvMemory, kv_memory
from paceline.deployment.links import Links
from paceline.deployment.lockstep import Lockstep
from paceline.deployment.medium import Medium, link_names
from paceline.deployment.ports import Pair, Port

__all__ = [
    "Balance",
    "Cluster",
    "CudaGraphs",
    "Instance",
    "KvMemory",
    "Links",
    "Lockstep",
    "Medium",
    "Pair",
    "Port",
    "kv_memory",
    "link_names",
]
