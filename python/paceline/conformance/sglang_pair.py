"""Logs of an instance of SGLang that prefills and of some that decode: conversion of settings and steps.

Requests are offered to those that decode, in turn, as they arrive
(``--disaggregation-decode-allocation-policy early``).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from paceline.conformance import sglang, sglang_apart
from paceline.conformance.log import DecisionLog

__all__ = ["FIELDS", "cluster", "columns", "instance", "others", "steps"]

FIELDS = ("instance", *sglang.FIELDS)
_ROLES = ("prefill", "decode")


def _of(log: DecisionLog, role: str) -> DecisionLog:
    """Return the log with the settings of one instance."""
    return dataclasses.replace(log, engine={**log.engine[role], "disaggregation": role})


def instance(log: DecisionLog) -> dict[str, Any]:
    """Return the configuration of the instance that prefills."""
    return sglang_apart.instance(_of(log, "prefill"))


def others(log: DecisionLog) -> list[dict[str, Any]]:
    """Return the configurations of the instances that decode."""
    return [sglang_apart.instance(_of(log, "decode")) for _ in range(log.engine.get("decodes", 1))]


def cluster(log: DecisionLog) -> dict[str, Any]:
    """Return how requests go from one to the others."""
    engine = {**log.engine["decode"], "disaggregation": "decode", "transfer_ns": log.engine["transfer_ns"]}
    given = sglang_apart.cluster(dataclasses.replace(log, engine=engine))
    picked = [{"rule": "round_robin", "within": [pool]} for pool in range(2)]
    routing = {"on_arrival": picked[0], "decode_on_arrival": picked[1], "on_prefilled": None}
    return {
        **given,
        "routing": {**given["routing"], **routing},
        "roles": [0, *[1] * log.engine.get("decodes", 1)],
        "handover": {**given["handover"], "offer": "arrival"},
    }


def columns(log: DecisionLog) -> dict[str, Any]:
    """Return the columns that only this kind of log has."""
    caches = any(log.engine[role]["radix_cache"] for role in _ROLES)
    return sglang.columns(dataclasses.replace(log, engine={**log.engine["prefill"], "radix_cache": caches}))


def steps(log: DecisionLog, records: list[list[dict[str, Any]]]) -> list[list[Any]]:
    """Return the steps of all instances in the form of the log, one instance after another."""
    of_each = [sglang.steps(log, of) for of in records]
    # Steps that are not decided ahead have no moment of that.
    return [[index, *step, *[None] * (5 - len(step))] for index, of in enumerate(of_each) for step in of]
