"""Decision logs of real routers, replayed through this engine.

A log holds a workload on a small cluster of fixed steps, the settings of a real
router, and every decision that the router's own code took. Each kind of log has
a module here, which says the router's rule in the policy language and the log's
cluster as instances of the engine (`kinds.py` lists them). A log is replayed
from its requests and settings alone: every decision and time must be the same.
Where the engine cannot say the log's instance, the rules are asked about what the
log says that the router saw (`seen.py`): every decision must be the same.
"""

from __future__ import annotations

from paceline.conformance.routers.check import check_router
from paceline.conformance.routers.log import RouterLog, is_router_log, read_router_log

__all__ = ["RouterLog", "check_router", "is_router_log", "read_router_log"]
