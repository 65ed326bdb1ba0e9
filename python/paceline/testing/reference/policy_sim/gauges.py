"""Gauges of monitors, from all that they read in their window."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from paceline.testing.reference.policy_sim.expression import evaluate, over
from paceline.testing.reference.policy_sim.scope import View


class GaugeReadings:
    """A gauge, and what it read of each instance in its window since the instance was last left out."""

    def __init__(self, action: dict[str, Any]) -> None:
        self._action = action
        self._read: dict[int, list[tuple[int, float]]] = {}

    def act(self, view: View) -> None:
        """Read the instances at the moment of the view, and have each keep its value."""
        action, now = self._action, view.now
        for one in view.replicas:
            read = self._read.setdefault(one.index, [])
            if action["within"] is not None and one.role not in action["within"]:
                read.clear()
            else:
                read.append((now, evaluate(action["of"], replace(view, inst=one, here=one))))
            # No later run looks further back than this one.
            read[:] = [(at, value) for at, value in read if at == now or now - at < action["window"]]
            values = [value for _, value in read if not math.isnan(value)]
            one.gauges[action["index"]] = over(action["take"], values)
