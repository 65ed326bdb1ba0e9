"""Policies, each a short file that a reader can hold beside its source."""

from __future__ import annotations

from paceline.policies.layered_prefill import authors_chunked, authors_orca, layered_prefill
from paceline.policies.orca import orca
from paceline.policies.sarathi import sarathi
from paceline.policies.sglang import sglang
from paceline.policies.static import static
from paceline.policies.vllm import vllm
from paceline.policies.vllm_v0 import vllm_v0

__all__ = [
    "authors_chunked",
    "authors_orca",
    "layered_prefill",
    "orca",
    "sarathi",
    "sglang",
    "static",
    "vllm",
    "vllm_v0",
]
