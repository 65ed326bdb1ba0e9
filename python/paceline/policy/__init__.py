"""What a policy is made of."""

from __future__ import annotations

from paceline.policy.policy import Policy, Routing
from paceline.policy.scheduler import Scheduler

__all__ = ["Policy", "Routing", "Scheduler"]
