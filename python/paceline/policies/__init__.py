"""The catalog of policies: each a short file in the policy language, to read beside its source."""

from __future__ import annotations

from paceline.policies.andes import andes
from paceline.policies.arrow import arrow
from paceline.policies.arrow_xllm import arrow_xllm
from paceline.policies.disaggregated import disaggregated
from paceline.policies.dynamo import dynamo
from paceline.policies.fastserve import fastserve
from paceline.policies.fcfs import fcfs
from paceline.policies.las import las
from paceline.policies.layered_prefill import authors_chunked, authors_orca, layered_prefill
from paceline.policies.llm_d import llm_d
from paceline.policies.llumnix import llumnix
from paceline.policies.orca import orca
from paceline.policies.pars import pars
from paceline.policies.pascal import pascal
from paceline.policies.round_robin_quanta import round_robin_quanta
from paceline.policies.sarathi import sarathi
from paceline.policies.sglang import sglang
from paceline.policies.sglang_router import sglang_router
from paceline.policies.srpt import srpt
from paceline.policies.static import static
from paceline.policies.vllm import vllm
from paceline.policies.vllm_ltr import vllm_ltr
from paceline.policies.vllm_v0 import vllm_v0

__all__ = [
    "andes",
    "arrow",
    "arrow_xllm",
    "authors_chunked",
    "authors_orca",
    "disaggregated",
    "dynamo",
    "fastserve",
    "fcfs",
    "las",
    "layered_prefill",
    "llm_d",
    "llumnix",
    "orca",
    "pars",
    "pascal",
    "round_robin_quanta",
    "sarathi",
    "sglang",
    "sglang_router",
    "srpt",
    "static",
    "vllm",
    "vllm_ltr",
    "vllm_v0",
]
