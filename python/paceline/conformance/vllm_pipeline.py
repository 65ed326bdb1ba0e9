"""Logs of vLLM V1 with several batches in a pipeline: conversion of settings and steps."""

from __future__ import annotations

from typing import Any

from paceline.conformance import vllm
from paceline.conformance.log import DecisionLog

__all__ = ["FIELDS", "columns", "instance", "steps"]

FIELDS = (*vllm.FIELDS, "end (ns)")


def instance(log: DecisionLog) -> dict[str, Any]:
    """Return the configuration of the log's engine, whose stages are equal."""
    batches = log.engine["batches"]
    pipeline = {"stages": [1] * batches, "batches": batches, "empty_batches": True}
    return {**vllm.instance(log), "pipeline": pipeline}


def columns(log: DecisionLog) -> dict[str, Any]:
    """Return the columns that only this kind of log has."""
    return vllm.columns(log)


def steps(log: DecisionLog, records: list[dict[str, Any]]) -> list[list[Any]]:
    """Return the steps of the engine in the form of the log."""
    ends = [record["start"] + record["ticks"] for record in records]
    return [[*step, end] for step, end in zip(vllm.steps(log, records), ends, strict=True)]
