"""Measured points by the thousand: read from published data, replayed and scored.

Each kind of data has a reader in :mod:`paceline.validation.points.readers`, which yields points, or the
reason why a row is not modelled. :mod:`~paceline.validation.points.serving` turns a point into a cluster and
a policy, :mod:`~paceline.validation.points.predicting` replays it, and
:mod:`~paceline.validation.points.scoring` scores it.
"""

from __future__ import annotations

from paceline.validation.points.point import Point, Refused, Server
from paceline.validation.points.predicting import Predicted
from paceline.validation.points.running import SuiteResult, suite

__all__ = ["Point", "Predicted", "Refused", "Server", "SuiteResult", "suite"]
