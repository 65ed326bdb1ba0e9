"""A model's fields, read from a Hugging Face ``config.json``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from paceline import _check
from paceline.errors import ConfigError
from paceline.model.experts import Experts
from paceline.model.hybrid_config import COUNTS, FLAGS, TEXTS, read_hybrid
from paceline.model.latent import Latent

__all__ = ["read_config"]

# Where transformers' families differ from the plain decoder: modeling_*.py of transformers 4.46 and later,
# and of 4.55 for gpt-oss. qwen2's biases are on queries, keys and values and not on the output.
_FAMILIES: dict[str, dict[str, bool]] = {
    "llama": {"qkv_bias": False, "qk_norm": False},
    "mistral": {"qkv_bias": False, "qk_norm": False},
    "qwen2": {"qkv_bias": True, "qk_norm": False},
    "qwen3": {"qkv_bias": False, "qk_norm": True},
    "mixtral": {},
    "qwen3_moe": {"qk_norm": True},
    "phimoe": {"norm_bias": True},
    "gpt_oss": {"attention_sinks": True},
    "deepseek_v2": {},
    "deepseek_v3": {},
    # modeling_qwen3_next.py of transformers 4.57: q_proj has a gate beside each number of a query.
    "qwen3_next": {"qk_norm": True, "output_gate": True},
    # modeling_nemotron_h.py of the checkpoints: one mixer or MLP a layer, and MLPs of two matrices.
    "nemotron_h": {"gated_mlp": False},
}

# Where the width of an expert is what others call the width of the MLP, and all layers have experts.
_EXPERTS_ONLY = ("mixtral", "phimoe", "gpt_oss")


#: Weights of a trillion parameters have no dimension near this one.
_MOST = 2**31


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


# Every field that is read, and what it must be where it is given; the constructors say which may be 0.
_RULES: dict[tuple[str, ...], tuple[Callable[[Any], bool], str]] = {
    (
        *("hidden_size", "num_attention_heads", "num_hidden_layers", "num_key_value_heads", "head_dim"),
        *("intermediate_size", "vocab_size", "max_position_embeddings", "num_local_experts", "num_experts"),
        *("n_routed_experts", "moe_intermediate_size", "n_shared_experts", "first_k_dense_replace"),
        *("num_experts_per_tok", "experts_per_token", "kv_lora_rank", "qk_rope_head_dim"),
        *("qk_nope_head_dim", "v_head_dim", "q_lora_rank", "sliding_window", "max_window_layers"),
        *("shared_expert_intermediate_size", *COUNTS),
    ): (_is_count, f"a whole number from 0 to {_MOST - 1:,}"),
    (*("tie_word_embeddings", "attention_bias", "lm_head_bias", "use_sliding_window"), *FLAGS): (
        lambda value: isinstance(value, bool),
        "true or false",
    ),
    ("_name_or_path", "dtype", "torch_dtype", *TEXTS): (lambda value: isinstance(value, str), "a text"),
    ("layer_types", "layers_block_type"): (_is_list_of_texts, "a list of texts"),
    ("mlp_only_layers",): (
        lambda value: isinstance(value, list | tuple) and all(map(_is_count, value)),
        "a list of whole numbers",
    ),
    ("quantization_config",): (lambda value: isinstance(value, Mapping), "a JSON object"),
}


def read_config(config: str | PathLike[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a :class:`~paceline.model.Model` that a config describes.

    Raises
    ------
    ConfigError
        As :meth:`Model.from_hf_config <paceline.model.Model.from_hf_config>` says.
    """
    content, where, fallback = _read(config)
    kind = content.get("model_type")
    if not isinstance(kind, str) or kind not in _FAMILIES:
        raise ConfigError(f"model_type of {where} must be one of {', '.join(_FAMILIES)}, was {kind!r}")
    reader = _Config(content, where, kind)
    hidden, heads = reader.need("hidden_size"), reader.need("num_attention_heads")
    _check.count(f"num_attention_heads of {where}", heads)
    _check.count(f"hidden_size of {where}", hidden)
    latent = reader.latent()
    head_dim = content.get("head_dim") or content.get("attention_head_dim") or hidden // heads
    quantised = reader.quantisation()
    experts = reader.experts("mxfp4" if quantised == "mxfp4" else "auto")
    return {
        "name": content.get("_name_or_path") or fallback,
        "layers": reader.need("num_hidden_layers"),
        "hidden_size": hidden,
        "heads": heads,
        "kv_heads": content.get("num_key_value_heads") or heads,
        "head_dim": head_dim if latent is None else latent.head_dim,
        "intermediate_size": reader.need("intermediate_size"),
        "vocab_size": reader.need("vocab_size"),
        "tied_embeddings": bool(content.get("tie_word_embeddings", False)),
        "max_positions": reader.need("max_position_embeddings"),
        "dtype": content.get("dtype") or content.get("torch_dtype") or "bfloat16",
        "weight_dtype": "fp8" if quantised == "fp8" else "auto",
        "experts": experts,
        "latent": latent,
        **_FAMILIES[kind],
        **reader.biases(),
        **reader.window(),
        **read_hybrid(content, where, kind, reader.need),
    }


class _Config:
    """A config's content, read part by part."""

    def __init__(self, content: Mapping[str, Any], where: str, kind: str) -> None:
        self.content = content
        self.where = where
        self.kind = kind
        for names, (good, rule) in _RULES.items():
            for name in names:
                value = content.get(name)
                if value is not None and not good(value):
                    shown = repr(value) if len(repr(value)) <= 80 else f"{repr(value)[:77]}..."
                    raise ConfigError(f"{name} of {where} must be {rule}, was {shown}")

    def need(self, *keys: str) -> Any:  # noqa: ANN401 -- JSON; the constructors check it
        """Return the value of the first of several names for it."""
        for key in keys:
            if self.content.get(key) is not None:
                return self.content[key]
        raise ConfigError(f"{self.where} lacks {' or '.join(repr(key) for key in keys)}")

    def biases(self) -> dict[str, bool]:
        """Return the biases that a config may switch on."""
        wanted = bool(self.content.get("attention_bias", False))
        match self.kind:
            case "llama" | "qwen3" | "qwen3_moe" | "qwen3_next":
                return {"qkv_bias": wanted}
            case "gpt_oss":
                return {"qkv_bias": wanted, "output_bias": wanted}
            case "phimoe":
                head = bool(self.content.get("lm_head_bias", False))
                return {"qkv_bias": wanted, "output_bias": wanted, "lm_head_bias": head}
        return {}

    def experts(self, dtype: str) -> Experts | None:
        """Return the mixture of experts, if this is one."""
        counts = ("num_local_experts", "num_experts", "n_routed_experts")
        # A config of Nemotron-H names experts whether or not its pattern has layers with them.
        if self.kind == "nemotron_h" or not any(self.content.get(key) for key in counts):
            return None
        kind = self.kind
        if self.content.get("decoder_sparse_step", 1) != 1 or self.content.get("moe_layer_freq", 1) != 1:
            raise ConfigError(
                f"decoder_sparse_step and moe_layer_freq of {self.where} must be 1: layers with and without "
                f"experts in turn are not modelled"
            )
        width = self.need("intermediate_size" if kind in _EXPERTS_ONLY else "moe_intermediate_size")
        shared = (self.content.get("n_shared_experts") or 0) * width
        shared = self.content.get("shared_expert_intermediate_size") or shared
        dense = self.content.get("first_k_dense_replace") or len(self.content.get("mlp_only_layers") or ())
        return Experts(
            count=self.need(*counts),
            per_token=self.need("num_experts_per_tok", "experts_per_token"),
            intermediate_size=width,
            shared_intermediate_size=shared,
            dense_layers=dense,
            dtype=dtype,
            bias=kind == "gpt_oss",
            # DeepSeek-V3's is the correction that balances the experts' load.
            router_bias=kind in ("gpt_oss", "deepseek_v3"),
            shared_gate=kind == "qwen3_next",
        )

    def latent(self) -> Latent | None:
        """Return the widths of latent attention, if the model has it."""
        if self.content.get("kv_lora_rank") is None:
            return None
        return Latent(
            kv_rank=self.need("kv_lora_rank"),
            rope_dim=self.need("qk_rope_head_dim"),
            nope_dim=self.need("qk_nope_head_dim"),
            value_dim=self.need("v_head_dim"),
            query_rank=self.content.get("q_lora_rank"),
        )

    def quantisation(self) -> str | None:
        """Return ``"fp8"``, ``"mxfp4"`` or nothing, and refuse the rest."""
        quantised = self.content.get("quantization_config")
        if not quantised:
            return None
        method = quantised.get("quant_method") if isinstance(quantised, Mapping) else None
        if method == "fp8" and quantised.get("weight_block_size") in ([128, 128], (128, 128)):
            return "fp8"
        if method == "mxfp4" and self.kind == "gpt_oss":
            return "mxfp4"
        raise ConfigError(
            f"{self.where} must not have a quantization_config other than fp8 in blocks of [128, 128] or "
            f"gpt-oss's mxfp4: no more is modelled, was {method!r}"
        )

    def window(self) -> dict[str, Any]:
        """Return the sliding window and the layers that have it, where one is in use."""
        window = None if self.kind == "nemotron_h" else self.content.get("sliding_window")
        used = self.content.get("use_sliding_window", window is not None)
        if not used or not window or window >= (self.content.get("max_position_embeddings") or 0):
            return {}
        layers = self.need("num_hidden_layers")
        kinds = self.content.get("layer_types")
        if kinds is not None:
            sliding = sum(1 for kind in kinds if kind == "sliding_attention")
        elif self.kind == "gpt_oss":  # configuration_gpt_oss.py: every other layer, from the first
            sliding = (layers + 1) // 2
        else:  # Qwen2 and Qwen3 slide from this layer on, Mistral and Mixtral in all
            sliding = max(0, layers - (self.content.get("max_window_layers") or 0))
        return {"sliding_window": window, "sliding_layers": sliding} if sliding else {}


def _read(config: str | PathLike[str] | Mapping[str, Any]) -> tuple[Mapping[str, Any], str, str]:
    """Return a config's content, its name in errors, and a default name for the model."""
    if isinstance(config, Mapping):
        return config, "the config", "custom"
    # Imported here so that a model of the catalog does not load the readers of traces.
    from paceline.trace.opening import content as content_of

    path = Path(config)
    if path.is_dir():
        path = path / "config.json"
    try:
        content = json.loads(content_of(path, error=ConfigError))
    except RecursionError as error:
        raise ConfigError(f"{path} must be a Hugging Face config.json, was nested too deeply") from error
    except (OSError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{path} must be a readable Hugging Face config.json: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold a JSON object, was a {type(content).__name__}")
    return content, str(path), path.resolve().parent.name
