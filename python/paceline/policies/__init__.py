"""The catalog of policies: each a short file in the policy language, to read beside its source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline._lazy import attach

if TYPE_CHECKING:
    from paceline.policies.andes import andes
    from paceline.policies.arrow import arrow
    from paceline.policies.arrow_xllm import arrow_xllm
    from paceline.policies.autoscaled import autoscaled
    from paceline.policies.cached_first import cache_affinity, residual_sjf
    from paceline.policies.disaggregated import disaggregated
    from paceline.policies.distserve import distserve
    from paceline.policies.dlpm import dlpm
    from paceline.policies.dynamo import dynamo
    from paceline.policies.dynamo_disaggregated import dynamo_disaggregated
    from paceline.policies.dynamo_planner import dynamo_planner
    from paceline.policies.dynamo_tracking import DynamoTracking
    from paceline.policies.fastserve import fastserve
    from paceline.policies.fcfs import fcfs
    from paceline.policies.flow_control import flow_control
    from paceline.policies.hpa import hpa
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
    from paceline.policies.programs import atlas, plas
    from paceline.policies.quotas import quotas
    from paceline.policies.reuse_probability import reuse_probability
    from paceline.policies.round_robin_quanta import round_robin_quanta
    from paceline.policies.sarathi import sarathi
    from paceline.policies.session_affinity import session_affinity
    from paceline.policies.sglang import sglang
    from paceline.policies.sglang_disaggregated import sglang_disaggregated
    from paceline.policies.sglang_router import sglang_router
    from paceline.policies.shed_late import shed_late
    from paceline.policies.shortest_prompt import shortest_prompt
    from paceline.policies.sjf import sjf
    from paceline.policies.splitwise import splitwise, splitwise_router
    from paceline.policies.srpt import srpt
    from paceline.policies.static import static
    from paceline.policies.tensorrt_llm import tensorrt_llm
    from paceline.policies.tetri_infer import tetri_infer
    from paceline.policies.vllm import vllm
    from paceline.policies.vllm_balancer import vllm_balancer
    from paceline.policies.vllm_ltr import vllm_ltr
    from paceline.policies.vllm_v0 import vllm_v0
    from paceline.policies.vtc import vtc
    from paceline.policies.weighted_fair import weighted_fair
    from paceline.policies.wva import wva

__all__ = [
    "DynamoTracking",
    "PascalReading",
    "andes",
    "arrow",
    "arrow_xllm",
    "atlas",
    "authors_chunked",
    "authors_orca",
    "autoscaled",
    "cache_affinity",
    "disaggregated",
    "distserve",
    "dlpm",
    "dynamo",
    "dynamo_disaggregated",
    "dynamo_planner",
    "fastserve",
    "fcfs",
    "flow_control",
    "hpa",
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
    "plas",
    "power_of_two",
    "prefix_hash",
    "quotas",
    "residual_sjf",
    "reuse_probability",
    "round_robin_quanta",
    "sarathi",
    "session_affinity",
    "sglang",
    "sglang_disaggregated",
    "sglang_router",
    "shed_late",
    "shortest_prompt",
    "sjf",
    "splitwise",
    "splitwise_router",
    "srpt",
    "static",
    "tensorrt_llm",
    "tetri_infer",
    "vllm",
    "vllm_balancer",
    "vllm_ltr",
    "vllm_v0",
    "vtc",
    "weighted_fair",
    "wva",
]

attach(
    __name__,
    {
        "andes": ("andes",),
        "arrow": ("arrow",),
        "arrow_xllm": ("arrow_xllm",),
        "autoscaled": ("autoscaled",),
        "cached_first": ("cache_affinity", "residual_sjf"),
        "disaggregated": ("disaggregated",),
        "distserve": ("distserve",),
        "dlpm": ("dlpm",),
        "dynamo": ("dynamo",),
        "dynamo_disaggregated": ("dynamo_disaggregated",),
        "dynamo_planner": ("dynamo_planner",),
        "dynamo_tracking": ("DynamoTracking",),
        "fastserve": ("fastserve",),
        "fcfs": ("fcfs",),
        "flow_control": ("flow_control",),
        "hpa": ("hpa",),
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
        "programs": ("atlas", "plas"),
        "quotas": ("quotas",),
        "reuse_probability": ("reuse_probability",),
        "round_robin_quanta": ("round_robin_quanta",),
        "sarathi": ("sarathi",),
        "session_affinity": ("session_affinity",),
        "sglang": ("sglang",),
        "sglang_disaggregated": ("sglang_disaggregated",),
        "sglang_router": ("sglang_router",),
        "shed_late": ("shed_late",),
        "shortest_prompt": ("shortest_prompt",),
        "sjf": ("sjf",),
        "splitwise": ("splitwise", "splitwise_router"),
        "srpt": ("srpt",),
        "static": ("static",),
        "tensorrt_llm": ("tensorrt_llm",),
        "tetri_infer": ("tetri_infer",),
        "vllm": ("vllm",),
        "vllm_balancer": ("vllm_balancer",),
        "vllm_ltr": ("vllm_ltr",),
        "vllm_v0": ("vllm_v0",),
        "vtc": ("vtc",),
        "weighted_fair": ("weighted_fair",),
        "wva": ("wva",),
    },
)
