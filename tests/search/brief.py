"""A summary of a case in one line: the settings in which it differs from a plain one."""

from __future__ import annotations

from typing import Any

from search.case import Case

# The plain value of each part; a part with it is left out.
SIMPLE: dict[str, Any] = {
    "long_prefill_token_threshold": 0,
    "threshold_when_alone": False,
    "exclusive_prefill": False,
    "admission": {"kind": "wait"},
    "victim": "latest",
    "allocation": "chunk",
    "watermark_blocks": 0,
    "watermark_when_idle": False,
    "spare_block": False,
    "decodes_first": False,
    "refund": True,
    "stop_at_own_preemption": False,
    "preemption": {"kind": "recompute"},
    "requeue_late": False,
    "requeue_last": False,
    "output_reserve": None,
    "whole_block_chunks": False,
    "prompt_batch": None,
    "sits_out": False,
    "prefix_cache": None,
    "schedule_ahead": False,
    "drop_unseen": False,
    "unseen_ends": False,
    "receive_interval": 1,
    "order": {"kind": "arrival"},
    "max_num_seqs": 1000,
    "max_num_batched_tokens": 1000,
    "blocks": 1000,
    "max_model_len": None,
    "traffic": None,
    "when": None,
    "where": None,
    "accept": None,
    "within": None,
    "gather": None,
    "live": None,
    "hold": 0,
    "hold_steps": 0,
    "reserve_blocks": 0,
    "swap_reserve_blocks": 0,
    "quantum": 0,
    "levels": None,
    "refresh": {"steps": 0, "ticks": 0},
    "on_arrival": {"rule": "round_robin"},
    "decode_on_arrival": None,
    "on_prefilled": None,
    "on_answering": None,
    "every": [],
    "roles": [],
    "handover": None,
    "most_transfers": None,
    "most_held": None,
    "lease": None,
    "overlap": "none",
    "reserve": None,
    "offer": "prefilled",
    "kv_layers": 1,
    "state_blocks": 0,
    "state_bytes": 0,
    "links": None,
    "pace": None,
    "lockstep": None,
    "until": None,
    "sample": None,
    "kv_bytes_per_token": 0,
    "count_decodes": True,
    "unless_preempted": False,
    "unless_swapped": False,
    "chunked": True,
    "charged": True,
    "seated": False,
    "over_prefills": True,
    "overlapped": False,
    "most": 0,
    "kv_token": 0,
    "token": 0,
    "step": 1,
    "cost": {"kind": "affine", "step": 10, "token": 0, "kv_token": 0},
    "stages": [
        {"kind": "running"},
        {
            "kind": "admit",
            "chunked": True,
            "unless_preempted": False,
            "unless_swapped": False,
            "count_decodes": True,
            "gather": None,
        },
    ],
    "reasoning_tokens": 0,
    "priority": 0,
    "score": 0.0,
    "numbers": [0.0, 0.0],
    "tenant": 0,
    "model": None,
    "adapter": None,
    "arrival": 0,
    "prefix": [],
    "session": None,
    "think": None,
    "parents": [],
    "delay": 0,
    "not_before": 0,
    "cancel_after": None,
    "cancel_tokens": None,
    "patience": None,
    "clients": None,
    "gap": 0,
    "by_session": False,
    "block_tokens": 1,
}


def brief(case: Case) -> str:
    """Return the settings in which a case differs from a plain one."""
    config = case.config
    said = [f"{len(case.requests)} requests, {len(config['instances'])} instances"]
    for index, instance in enumerate(config["instances"]):
        if index and instance == config["instances"][0]:
            continue
        scheduler = instance["scheduler"]
        several = {**{name: value for name, value in instance.items() if name != "scheduler"}, **scheduler}
        told = [f"{name}={_text(value)}" for name, value in several.items() if SIMPLE.get(name) != value]
        said.append(f"[{index}] {', '.join(told)}")
    routing = {
        **config["routing"],
        **{name: value for name, value in config.items() if name not in ("instances", "routing")},
    }
    said += [f"{name}={_text(value)}" for name, value in routing.items() if SIMPLE.get(name) != value]
    return "; ".join(said)


def _text(value: Any) -> str:
    """Return a part of a configuration in short form."""
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    if not isinstance(value, dict):
        return str(value)
    if "op" in value:
        return f"{value['op']}({', '.join(map(_text, value['args']))})"
    if "field" in value or "const" in value:
        return str(value.get("field", value.get("const")))
    kind = next((str(value[name]) for name in ("kind", "rule", "action", "over") if name in value), "")
    told = [
        f"{name}={_text(part)}"
        for name, part in value.items()
        if name not in ("kind", "rule", "action", "over") and part != SIMPLE.get(name, "nothing")
    ]
    return f"{kind}({', '.join(told)})"
