"""The layers of hybrid models, read from a Hugging Face ``config.json``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from paceline import _check
from paceline.errors import ConfigError
from paceline.model.recurrent import Recurrent

__all__ = ["COUNTS", "FLAGS", "TEXTS", "read_hybrid"]

#: Fields of these configs, by what they hold.
COUNTS = (
    *("full_attention_interval", "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim"),
    *("linear_value_head_dim", "linear_conv_kernel_dim", "attention_head_dim", "mamba_num_heads"),
    *("mamba_head_dim", "mamba_num_groups", "mamba_state_dim", "mamba_d_conv", "mamba_chunk_size"),
    *("n_groups", "ssm_state_size", "conv_kernel", "chunk_size"),
)
FLAGS = ("use_conv_bias", "use_bias", "mlp_bias", "mamba_proj_bias")
TEXTS = ("hybrid_override_pattern", "mamba_ssm_dtype", "mamba_ssm_cache_dtype")

_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp"}


def read_hybrid(
    content: Mapping[str, Any], where: str, kind: str, need: Callable[..., Any]
) -> dict[str, Any]:
    """Return the fields of a model's recurrent layers and lone MLPs; nothing for a model without any.

    Parameters
    ----------
    content
        The config.
    where
        Its name in errors.
    kind
        Its ``model_type``.
    need
        Returns the value of the first of several names for it, or raises.

    Raises
    ------
    ConfigError
        If layers are named that are not modelled, or not as many as there are.
    """
    if kind == "qwen3_next":
        return _qwen3_next(content, where, need)
    return _nemotron_h(content, where, need) if kind == "nemotron_h" else {}


def _state_dtype(content: Mapping[str, Any]) -> str:
    """Return the type in which the config asks for the states."""
    return content.get("mamba_ssm_cache_dtype") or content.get("mamba_ssm_dtype") or "auto"


def _qwen3_next(content: Mapping[str, Any], where: str, need: Callable[..., Any]) -> dict[str, Any]:
    layers = need("num_hidden_layers")
    kinds = content.get("layer_types")
    if kinds is None:  # configuration_qwen3_next.py: the last of each so many layers has attention
        every = content.get("full_attention_interval") or 4
        linear = layers - layers // every
    else:
        _check_kinds(kinds, ("linear_attention", "full_attention"), layers, f"layer_types of {where}")
        linear = sum(one == "linear_attention" for one in kinds)
    if not linear:
        return {}
    recurrent = Recurrent(
        kind="gated_delta_net",
        layers=linear,
        key_heads=need("linear_num_key_heads"),
        value_heads=need("linear_num_value_heads"),
        key_dim=need("linear_key_head_dim"),
        value_dim=need("linear_value_head_dim"),
        conv_kernel=need("linear_conv_kernel_dim"),
        state_dtype=_state_dtype(content),
    )
    return {"recurrent": recurrent}


def _nemotron_h(content: Mapping[str, Any], where: str, need: Callable[..., Any]) -> dict[str, Any]:
    layers = need("num_hidden_layers")
    _check.count(f"num_hidden_layers of {where}", layers)
    for flag in ("use_bias", "mlp_bias", "mamba_proj_bias"):
        if content.get(flag):
            raise ConfigError(f"{flag} of {where} must be false: biases of projections are not modelled")
    kinds = content.get("layers_block_type")
    if kinds is None:
        pattern = need("hybrid_override_pattern")
        kinds = [_LETTERS.get(letter, letter) for letter in pattern]
    _check_kinds(kinds, tuple(_LETTERS.values()), layers, f"hybrid_override_pattern of {where}")
    mlps, mambas = kinds.count("mlp"), kinds.count("mamba")
    fields: dict[str, Any] = {"mlp_layers": mlps} if mlps else {}
    if mambas:
        fields["recurrent"] = Recurrent(
            kind="mamba2",
            layers=mambas,
            key_heads=need("n_groups", "mamba_num_groups"),
            value_heads=need("mamba_num_heads"),
            key_dim=need("ssm_state_size", "mamba_state_dim"),
            value_dim=need("mamba_head_dim"),
            conv_kernel=need("conv_kernel", "mamba_d_conv"),
            conv_bias=content.get("use_conv_bias", True),
            chunk_tokens=need("chunk_size", "mamba_chunk_size"),
            state_dtype=_state_dtype(content),
        )
    return fields


def _check_kinds(kinds: list[str] | tuple[str, ...], known: tuple[str, ...], layers: int, what: str) -> None:
    """Refuse kinds of layers that are not modelled, and a list of another length than there are layers."""
    for at, one in enumerate(kinds):
        if one not in known:
            raise ConfigError(f"{what} must name {', '.join(known)} alone, was {one!r} at layer {at}")
    if len(kinds) != layers:
        raise ConfigError(f"{what} must name its {layers} layers, named {len(kinds)}")
