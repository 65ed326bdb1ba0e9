"""Expressions: what a policy computes from requests and instances."""

from __future__ import annotations

from paceline.policy.expressions.accumulated import accumulated
from paceline.policy.expressions.functions import ilog2, maximum, minimum, where
from paceline.policy.expressions.namespaces import block, cluster, inst, oracle, req, slo
from paceline.policy.expressions.tree import Expr

__all__ = [
    "Expr",
    "accumulated",
    "block",
    "cluster",
    "ilog2",
    "inst",
    "maximum",
    "minimum",
    "oracle",
    "req",
    "slo",
    "where",
]
