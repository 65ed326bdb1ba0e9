"""The catalog of policies: each a short file in the policy language, to read beside its source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline._lazy import attach

if TYPE_CHECKING:
    from paceline.policies.andes import andes
    from paceline.policies.arrow import arrow
    from paceline.policies.arrow_xllm import arrow_xllm
    from paceline.policies.autoscaled import autoscaled
    from paceline.policies.disaggregated import disaggregated
    from paceline.policies.distserve import distserve
    from paceline.policies.dynamo import dynamo
    from paceline.policies.dynamo_disaggregated import dynamo_disaggregated
    from paceline.policies.dynamo_tracking import DynamoTracking
    from paceline.policies.fastserve import fastserve
    from paceline.policies.fcfs import fcfs
    from paceline.policies.las import las
    from paceline.policies.layered_prefill import authors_chunked, authors_orca, layered_prefill
    from paceline.policies.llm_d import llm_d
    from paceline.policies.llm_d_disaggregated import llm_d_disaggregated
    from paceline.policies.llumnix import llumnix
    from paceline.policies.llumnix_adaptive import llumnix_adaptive
    from paceline.policies.mooncake import mooncake
    from paceline.policies.orca import orca
    from paceline.policies.pars import pars
    from paceline.policies.pascal import pascal
    from paceline.policies.pascal_reading import PascalReading
    from paceline.policies.power_of_two import power_of_two
    from paceline.policies.prefix_hash import prefix_hash
    from paceline.policies.round_robin_quanta import round_robin_quanta
    from paceline.policies.sarathi import sarathi
    from paceline.policies.session_affinity import session_affinity
    from paceline.policies.sglang import sglang
    from paceline.policies.sglang_router import sglang_router
    from paceline.policies.sjf import sjf
    from paceline.policies.splitwise import splitwise, splitwise_router
    from paceline.policies.srpt import srpt
    from paceline.policies.static import static
    from paceline.policies.tetri_infer import tetri_infer
    from paceline.policies.vllm import vllm
    from paceline.policies.vllm_balancer import vllm_balancer
    from paceline.policies.vllm_ltr import vllm_ltr
    from paceline.policies.vllm_v0 import vllm_v0
    from paceline.policies.vtc import vtc

__all__ = [
    "DynamoTracking",
    "PascalReading",
    "andes",
    "arrow",
    "arrow_xllm",
    "authors_chunked",
    "authors_orca",
    "autoscaled",
    "disaggregated",
    "distserve",
    "dynamo",
    "dynamo_disaggregated",
    "fastserve",
    "fcfs",
    "las",
    "layered_prefill",
    "llm_d",
    "llm_d_disaggregated",
    "llumnix",
    "llumnix_adaptive",
    "mooncake",
    "orca",
    "pars",
    "pascal",
    "power_of_two",
    "prefix_hash",
    "round_robin_quanta",
    "sarathi",
    "session_affinity",
    "sglang",
    "sglang_router",
    "sjf",
    "splitwise",
    "splitwise_router",
    "srpt",
    "static",
    "tetri_infer",
    "vllm",
    "vllm_balancer",
    "vllm_ltr",
    "vllm_v0",
    "vtc",
]

attach(
    __name__,
    {
        "andes": ("andes",),
        "arrow": ("arrow",),
        "arrow_xllm": ("arrow_xllm",),
        "autoscaled": ("autoscaled",),
        "disaggregated": ("disaggregated",),
        "distserve": ("distserve",),
        "dynamo": ("dynamo",),
        "dynamo_disaggregated": ("dynamo_disaggregated",),
        "dynamo_tracking": ("DynamoTracking",),
        "fastserve": ("fastserve",),
        "fcfs": ("fcfs",),
        "las": ("las",),
        "layered_prefill": ("authors_chunked", "authors_orca", "layered_prefill"),
        "llm_d": ("llm_d",),
        "llm_d_disaggregated": ("llm_d_disaggregated",),
        "llumnix": ("llumnix",),
        "llumnix_adaptive": ("llumnix_adaptive",),
        "mooncake": ("mooncake",),
        "orca": ("orca",),
        "pars": ("pars",),
        "pascal": ("pascal",),
        "pascal_reading": ("PascalReading",),
        "power_of_two": ("power_of_two",),
        "prefix_hash": ("prefix_hash",),
        "round_robin_quanta": ("round_robin_quanta",),
        "sarathi": ("sarathi",),
        "session_affinity": ("session_affinity",),
        "sglang": ("sglang",),
        "sglang_router": ("sglang_router",),
        "sjf": ("sjf",),
        "splitwise": ("splitwise", "splitwise_router"),
        "srpt": ("srpt",),
        "static": ("static",),
        "tetri_infer": ("tetri_infer",),
        "vllm": ("vllm",),
        "vllm_balancer": ("vllm_balancer",),
        "vllm_ltr": ("vllm_ltr",),
        "vllm_v0": ("vllm_v0",),
        "vtc": ("vtc",),
    },
)
