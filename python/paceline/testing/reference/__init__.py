"""The reference simulators: the rules that the engine follows, one step at a time.

They are written to be read beside the schedulers that they follow, and are slow. They compute every step,
keep each block by name, and share no code with the engine. Each generation of scheduler is one file,
:mod:`~paceline.testing.reference.vllm_v1`, :mod:`~paceline.testing.reference.vllm_v0` and
:mod:`~paceline.testing.reference.layered`; they share the pool of blocks and the clock.
Policies are in :mod:`~paceline.testing.reference.policy_sim`, which reads the engine's own
configuration: any composition of stages and rules, ranked queues, prefix caching, routing, migration
and pacing. Given the policies of those schedulers, it decides as their files do.
"""

from __future__ import annotations

from paceline.testing.reference.clock import Outcome, replay, replay_cluster
from paceline.testing.reference.cost import AffineCost
from paceline.testing.reference.decision_log import DecisionLog, read_decision_log
from paceline.testing.reference.instance import Instance, Usage
from paceline.testing.reference.layered import LayeredConfig
from paceline.testing.reference.request import Request, Sequence
from paceline.testing.reference.vllm_v0 import VllmV0Config
from paceline.testing.reference.vllm_v1 import VllmV1Config

__all__ = [
    "AffineCost",
    "DecisionLog",
    "Instance",
    "LayeredConfig",
    "Outcome",
    "Request",
    "Sequence",
    "Usage",
    "VllmV0Config",
    "VllmV1Config",
    "read_decision_log",
    "replay",
    "replay_cluster",
]
