"""What of a language model its serving costs depend on: the shape of a dense decoder.

Modelled are decoders of the Llama family: attention with grouped queries, a gated MLP of three matrices,
RMS norms, rotary positions, the same in every layer. Mixtures of experts, sliding windows and latent
attention are refused rather than approximated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from paceline import _check, profiles
from paceline._toml import build, dump, parse, table
from paceline.errors import ConfigError

__all__ = ["DTYPE_BYTES", "Model", "model_names"]

#: Bytes of one number, by the name that configurations use.
DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}

_WEIGHT_DTYPES = ("bfloat16", "float16")

# Where transformers' defaults differ between families: modeling_*.py of transformers 4.46 and later.
_FAMILIES: dict[str, dict[str, bool]] = {
    "llama": {"qkv_bias": False, "qk_norm": False},
    "mistral": {"qkv_bias": False, "qk_norm": False},
    "qwen2": {"qkv_bias": True, "qk_norm": False},
    "qwen3": {"qkv_bias": False, "qk_norm": True},
}


def model_names() -> tuple[str, ...]:
    """Return the names of the models that come with Paceline.

    Examples
    --------
    >>> "llama-3.1-8b" in model_names()
    True
    """
    return profiles.names("model")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The shape of a dense decoder.

    Parameters
    ----------
    name
        How reports call it.
    layers
        Decoder blocks.
    hidden_size
        Width of the residual stream.
    heads, kv_heads
        Query heads, and the key and value heads that they share.
    head_dim
        Width of one head; ``heads * head_dim`` need not be ``hidden_size``.
    intermediate_size
        Width of the gated MLP.
    vocab_size
        Rows of the embedding and of the LM head.
    tied_embeddings
        Whether those two are the same matrix.
    max_positions
        The longest sequence, in tokens, that the model is made for.
    dtype
        ``"bfloat16"`` or ``"float16"``, of weights and activations.
    qkv_bias
        Whether the query, key and value projections add a bias.
    qk_norm
        Whether queries and keys are normalised head by head.

    Raises
    ------
    ConfigError
        If a number is not a whole one above 0, or the query heads cannot share the key and value heads.

    Examples
    --------
    >>> model = Model.load("llama-3.1-8b")
    >>> model.parameters
    8030261248
    >>> model.kv_bytes_per_token()
    131072
    """

    name: str
    layers: int
    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    tied_embeddings: bool
    max_positions: int
    dtype: str = "bfloat16"
    qkv_bias: bool = False
    qk_norm: bool = False

    def __post_init__(self) -> None:
        for field in (
            "layers",
            "hidden_size",
            "heads",
            "kv_heads",
            "head_dim",
            "intermediate_size",
            "vocab_size",
            "max_positions",
        ):
            _check.count(f"{field} of model {self.name!r}", getattr(self, field))
        if self.heads % self.kv_heads:
            raise ConfigError(
                f"heads of model {self.name!r} must be a multiple of its {self.kv_heads} kv_heads, "
                f"was {self.heads}"
            )
        if self.dtype not in _WEIGHT_DTYPES:
            raise ConfigError(
                f"dtype of model {self.name!r} must be one of {', '.join(_WEIGHT_DTYPES)}, was {self.dtype!r}"
            )

    @classmethod
    def load(cls, name: str) -> Model:
        """Return a model that comes with Paceline.

        Raises
        ------
        ConfigError
            If there is none of that name; the message says which are close.

        Examples
        --------
        >>> Model.load("qwen3-32b").layers
        64
        """
        return build(cls, {"name": name, **profiles.load("model", name)}, f"model {name!r}")

    @classmethod
    def from_hf_config(
        cls, config: str | PathLike[str] | Mapping[str, Any], *, name: str | None = None
    ) -> Model:
        """Read a model from a Hugging Face ``config.json``.

        Parameters
        ----------
        config
            The file, the folder that holds it, or its content.
        name
            How reports call it; by default what the file says it is, else the folder's name.

        Raises
        ------
        ConfigError
            If the file cannot be read, or describes what is not a dense decoder of a known family (Llama,
            Mistral, Qwen2, Qwen3), has a sliding window, or is quantised.

        Examples
        --------
        >>> Model.from_hf_config({
        ...     "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
        ...     "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 1000,
        ...     "max_position_embeddings": 512, "torch_dtype": "bfloat16",
        ... }, name="tiny").head_dim
        16
        """
        content, where, fallback = _read_config(config)
        family = _family(content, where)

        def need(key: str) -> Any:  # noqa: ANN401 -- JSON; the constructor checks it
            if content.get(key) is None:
                raise ConfigError(f"{where} lacks {key!r}")
            return content[key]

        hidden, heads = need("hidden_size"), need("num_attention_heads")
        _check.count(f"num_attention_heads of {where}", heads)
        _check.count(f"hidden_size of {where}", hidden)
        return cls(
            name=name or content.get("_name_or_path") or fallback,
            layers=need("num_hidden_layers"),
            hidden_size=hidden,
            heads=heads,
            kv_heads=content.get("num_key_value_heads") or heads,
            head_dim=content.get("head_dim") or hidden // heads,
            intermediate_size=need("intermediate_size"),
            vocab_size=need("vocab_size"),
            tied_embeddings=bool(content.get("tie_word_embeddings", False)),
            max_positions=need("max_position_embeddings"),
            dtype=content.get("dtype") or content.get("torch_dtype") or "bfloat16",
            **family,
        )

    @property
    def parameters(self) -> int:
        """Weights of the whole model, biases and norms among them."""
        embeddings = self.vocab_size * self.hidden_size * (1 if self.tied_embeddings else 2)
        return embeddings + self.layers * self._layer_parameters(1) + self.hidden_size

    def weight_bytes(self, tensor_parallel: int = 1) -> int:
        """Return the bytes of weights on one rank.

        Matrices and embeddings are split; norms are repeated, and so are key and value heads where there
        are fewer than ranks (vLLM's ``QKVParallelLinear``).
        """
        self.check_parallel(tensor_parallel)
        embeddings = self.vocab_size * self.hidden_size * (1 if self.tied_embeddings else 2)
        weights = embeddings / tensor_parallel + self.layers * self._layer_parameters(tensor_parallel)
        return round(weights + self.hidden_size) * DTYPE_BYTES[self.dtype]

    def kv_heads_per_rank(self, tensor_parallel: int = 1) -> int:
        """Return the key and value heads on one rank: at least one, repeated where there are fewer."""
        self.check_parallel(tensor_parallel)
        return max(1, self.kv_heads // tensor_parallel)

    def kv_bytes_per_token(self, tensor_parallel: int = 1, kv_dtype: str = "auto") -> int:
        """Return the bytes of keys and values of one token on one rank, over all layers.

        Parameters
        ----------
        tensor_parallel
            Ranks that the model is split over.
        kv_dtype
            As in vLLM: ``"auto"`` is the model's own.
        """
        heads = self.kv_heads_per_rank(tensor_parallel)
        return 2 * self.layers * heads * self.head_dim * self.kv_dtype_bytes(kv_dtype)

    def kv_dtype_bytes(self, kv_dtype: str = "auto") -> int:
        """Return the bytes of one number of the KV cache.

        Raises
        ------
        ConfigError
            If the name is not known.
        """
        dtype = self.dtype if kv_dtype == "auto" else kv_dtype
        if dtype not in DTYPE_BYTES:
            raise ConfigError(f"kv_dtype must be auto or one of {', '.join(DTYPE_BYTES)}, was {kv_dtype!r}")
        return DTYPE_BYTES[dtype]

    def check_parallel(self, tensor_parallel: int) -> None:
        """Refuse a number of ranks that heads or widths cannot be split over.

        Raises
        ------
        ConfigError
            As vLLM does.
        """
        _check.count("tensor_parallel", tensor_parallel)
        for field, size in (("heads", self.heads), ("intermediate_size", self.intermediate_size)):
            if size % tensor_parallel:
                raise ConfigError(
                    f"tensor_parallel must divide the {size} {field} of {self.name!r}, was {tensor_parallel}"
                )
        few, many = sorted((self.kv_heads, tensor_parallel))
        if many % few:
            raise ConfigError(
                f"tensor_parallel must divide the {self.kv_heads} kv_heads of {self.name!r} or be a multiple "
                f"of them, was {tensor_parallel}"
            )

    def to_toml(self) -> str:
        """Return the model as the text of a TOML file."""
        return dump(table(self))

    @classmethod
    def from_toml(cls, text: str) -> Model:
        """Read what :meth:`to_toml` wrote."""
        return build(cls, parse(text, "a model"), "a model")

    def _layer_parameters(self, ranks: int) -> int:
        """Return the weights of one layer on one of ``ranks``."""
        query = self.heads // ranks * self.head_dim
        key_value = 2 * self.kv_heads_per_rank(ranks) * self.head_dim
        attention = self.hidden_size * (query + key_value) + query * self.hidden_size
        bias = query + key_value if self.qkv_bias else 0
        norms = 2 * self.hidden_size + (2 * self.head_dim if self.qk_norm else 0)
        return attention + bias + norms + 3 * self.hidden_size * (self.intermediate_size // ranks)


def _read_config(config: str | PathLike[str] | Mapping[str, Any]) -> tuple[Mapping[str, Any], str, str]:
    """Return a config's content, how errors call it, and a name in want of a better one."""
    if isinstance(config, Mapping):
        return config, "the config", "custom"
    path = Path(config)
    if path.is_dir():
        path = path / "config.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ConfigError(f"{path} must be a readable Hugging Face config.json: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold a JSON object, was a {type(content).__name__}")
    return content, str(path), path.resolve().parent.name


def _family(content: Mapping[str, Any], where: str) -> dict[str, bool]:
    """Return what a family adds to the plain decoder, or refuse what is not one."""
    kind = content.get("model_type")
    if kind not in _FAMILIES:
        raise ConfigError(f"model_type of {where} must be one of {', '.join(_FAMILIES)}, was {kind!r}")
    if content.get("quantization_config"):
        raise ConfigError(f"{where} must not have a quantization_config: only 16-bit weights are modelled")
    window = content.get("sliding_window")
    used = content.get("use_sliding_window", window is not None)
    if used and window is not None and window < content.get("max_position_embeddings", 0):
        raise ConfigError(
            f"sliding_window of {where} must be null or unused, was {window}: it is not modelled"
        )
    family = dict(_FAMILIES[kind])
    if kind in ("llama", "qwen3"):
        family["qkv_bias"] = bool(content.get("attention_bias", False))
    return family
