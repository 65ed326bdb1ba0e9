"""The shape of a decoder: its layers, widths and types, and what follows from them alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline._toml import build
from paceline.errors import ConfigError
from paceline.model.dtypes import DTYPE_BYTES
from paceline.model.experts import Experts
from paceline.model.latent import Latent
from paceline.model.recurrent import Recurrent

__all__ = ["DecoderShape"]

_ACTIVATION_DTYPES = ("bfloat16", "float16")
_MATRIX_DTYPES = ("auto", "bfloat16", "float16", "fp8", "nvfp4")


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields(but=("experts", "latent", "recurrent"))
class DecoderShape:
    """The fields of a :class:`~paceline.model.Model`, which describes them, and what they imply."""

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
    qk_norm_whole: bool = False
    output_bias: bool = False
    norm_bias: bool = False
    lm_head_bias: bool = False
    attention_sinks: bool = False
    sliding_window: int | None = None
    sliding_layers: int = 0
    weight_dtype: str = "auto"
    attention_dtype: str = "auto"
    output_dtype: str = "auto"
    experts: Experts | None = None
    latent: Latent | None = None
    recurrent: Recurrent | None = None
    mlp_layers: int | None = None
    gated_mlp: bool = True
    output_gate: bool = False

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
        if self.dtype not in _ACTIVATION_DTYPES:
            raise ConfigError(
                f"dtype of model {self.name!r} must be one of {', '.join(_ACTIVATION_DTYPES)}, "
                f"was {self.dtype!r}"
            )
        for field in ("weight_dtype", "attention_dtype", "output_dtype"):
            if getattr(self, field) not in _MATRIX_DTYPES:
                raise ConfigError(
                    f"{field} of model {self.name!r} must be one of {', '.join(_MATRIX_DTYPES)}, "
                    f"was {getattr(self, field)!r}"
                )
        for part, cls in (("experts", Experts), ("latent", Latent), ("recurrent", Recurrent)):
            value = getattr(self, part)
            if isinstance(value, Mapping):  # a table of a TOML file
                object.__setattr__(self, part, build(cls, value, f"{part} of model {self.name!r}"))
            elif value is not None and not isinstance(value, cls):
                raise ConfigError(
                    f"{part} of model {self.name!r} must be a {cls.__name__} or None, was {value!r}"
                )
        self._check_layers()

    @property
    def dense_layers(self) -> int:
        """Layers with a dense MLP: without experts all, or those that are an MLP alone."""
        if self.experts is not None:
            return self.experts.dense_layers
        return self.layers if self.mlp_layers is None else self.mlp_layers

    @property
    def mixers(self) -> int:
        """Layers that mix tokens, by attention or by a state: all but those that are an MLP alone."""
        return self.layers - (self.mlp_layers or 0)

    @property
    def attention_layers(self) -> int:
        """Layers with attention, and so with a cache."""
        return self.mixers - (0 if self.recurrent is None else self.recurrent.layers)

    @property
    def sublayers(self) -> int:
        """Norms, residual additions and, under tensor parallelism, reductions: of each mixer and each MLP."""
        return 2 * self.layers if self.mlp_layers is None else self.layers

    @property
    def norm_reductions(self) -> int:
        """All-reduces of the squares of queries and keys under tensor parallelism: of each layer, or none."""
        return self.attention_layers if self.qk_norm_whole else 0

    @property
    def mlp_matrices(self) -> int:
        """Matrices of an MLP of this width: gate, up and down, or without a gate two."""
        return 3 if self.gated_mlp else 2

    @typed()
    def state_layer_bytes(self, tensor_parallel: int = 1) -> int:
        """Return the bytes that a request keeps in one recurrent layer on one rank; 0 without such layers."""
        self.check_parallel(tensor_parallel)
        if self.recurrent is None:
            return 0
        return self.recurrent.state_bytes(tensor_parallel, number=DTYPE_BYTES[self.dtype])

    @typed()
    def state_bytes(self, tensor_parallel: int = 1) -> int:
        """Return the bytes that a request keeps on one rank in all recurrent layers, whatever its context."""
        layers = 0 if self.recurrent is None else self.recurrent.layers
        return layers * self.state_layer_bytes(tensor_parallel)

    @property
    def matrix_dtype(self) -> str:
        """Of the matrices of MLPs and of recurrent layers, ``"auto"`` resolved."""
        return self.dtype if self.weight_dtype == "auto" else self.weight_dtype

    @property
    def projection_dtype(self) -> str:
        """Of attention's matrices before its output projection, ``"auto"`` resolved."""
        return self.matrix_dtype if self.attention_dtype == "auto" else self.attention_dtype

    @property
    def output_projection_dtype(self) -> str:
        """Of attention's output projection, ``"auto"`` resolved."""
        return self.projection_dtype if self.output_dtype == "auto" else self.output_dtype

    @property
    def expert_dtype(self) -> str:
        """Of the routed experts' matrices, ``"auto"`` resolved."""
        if self.experts is not None and self.experts.dtype != "auto":
            return self.experts.dtype
        return self.matrix_dtype

    @typed()
    def kv_heads_per_rank(self, tensor_parallel: int = 1) -> int:
        """Return the key and value heads on one rank: at least one, repeated where there are fewer."""
        self.check_parallel(tensor_parallel)
        return max(1, self.kv_heads // tensor_parallel)

    @property
    def window_layers(self) -> int:
        """Layers with a cache that a window bounds.

        A window that all layers have, or none, is counted as none: blocks are then charged for whole
        contexts, which is more than vLLM keeps for a model with windows in all layers.
        """
        return self.sliding_layers if self.sliding_layers < self.layers else 0

    @typed()
    def kv_layer_bytes(self, tensor_parallel: int = 1, kv_dtype: str = "auto") -> int:
        """Return the bytes that a token keeps on one rank in one layer.

        Latent attention keeps one vector and not two, on every rank.
        """
        number = self.kv_dtype_bytes(kv_dtype)
        if self.latent is not None:
            self.check_parallel(tensor_parallel)
            return self.latent.cached * number
        return 2 * self.kv_heads_per_rank(tensor_parallel) * self.head_dim * number

    @typed()
    def kv_bytes_per_token(self, tensor_parallel: int = 1, kv_dtype: str = "auto") -> int:
        """Return the bytes of the cache that one more token takes on one rank.

        Layers without attention keep none: :meth:`state_bytes` has what they keep.
        Layers with a sliding window are left out (:attr:`window_layers`): past the window a further token
        frees what it takes. :func:`paceline.deployment.kv_memory` sets their windows aside.

        Parameters
        ----------
        tensor_parallel
            Ranks that the model is split over.
        kv_dtype
            As in vLLM: ``"auto"`` is the model's own.
        """
        layers = self.attention_layers - self.window_layers
        return layers * self.kv_layer_bytes(tensor_parallel, kv_dtype)

    @typed()
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

    @typed()
    def check_parallel(self, tensor_parallel: int, *, expert_ranks: int | None = None) -> None:
        """Refuse a number of ranks that heads, widths or experts cannot be split over.

        Raises
        ------
        ConfigError
            As vLLM does.
        """
        _check.count("tensor_parallel", tensor_parallel)
        sizes = [("heads", self.heads)]
        if self.dense_layers:
            sizes.append(("intermediate_size", self.intermediate_size))
        if self.experts is not None and expert_ranks is None:
            sizes.append(("intermediate_size of the experts", self.experts.intermediate_size))
        if self.experts is not None and self.experts.shared_intermediate_size:
            sizes.append(("shared_intermediate_size", self.experts.shared_intermediate_size))
        for field, size in sizes:
            if size % tensor_parallel:
                raise ConfigError(
                    f"tensor_parallel must divide the {size} {field} of {self.name!r}, was {tensor_parallel}"
                )
        if self.recurrent is not None:
            self.recurrent.check_parallel(tensor_parallel, self.name)
        if expert_ranks is not None:
            _check.count("expert_ranks", expert_ranks)
            count = 0 if self.experts is None else self.experts.count
            if not count or count % expert_ranks:
                raise ConfigError(
                    f"expert_ranks must divide the {count} experts of {self.name!r}, was {expert_ranks}"
                )
        few, many = sorted((self.kv_heads, tensor_parallel))
        if many % few:
            raise ConfigError(
                f"tensor_parallel must divide the {self.kv_heads} kv_heads of {self.name!r} or be a multiple "
                f"of them, was {tensor_parallel}"
            )

    def _check_layers(self) -> None:
        """Refuse windows without layers, layers without windows, and more of either than layers."""
        name = f"of model {self.name!r}"
        _check.count(f"sliding_layers {name}", self.sliding_layers, least=0)
        if self.sliding_window is not None:
            _check.count(f"sliding_window {name}", self.sliding_window)
        if (self.sliding_window is None) != (self.sliding_layers == 0):
            raise ConfigError(
                f"sliding_window {name} must be given with the sliding_layers that have it, "
                f"was {self.sliding_window} in {self.sliding_layers} layers"
            )
        if self.sliding_layers > self.layers:
            raise ConfigError(
                f"sliding_layers {name} must be at most its {self.layers} layers, was {self.sliding_layers}"
            )
        if self.experts is not None and self.experts.dense_layers >= self.layers:
            raise ConfigError(
                f"dense_layers of the experts {name} must be below its {self.layers} layers, "
                f"was {self.experts.dense_layers}"
            )
        if self.qk_norm_whole and not self.qk_norm:
            raise ConfigError(f"qk_norm_whole {name} must be false without qk_norm, was true")
        self._check_hybrid()
        if self.latent is not None and self.latent.head_dim != self.head_dim:
            raise ConfigError(
                f"head_dim {name} must be the {self.latent.head_dim} of its latent attention's nope_dim and "
                f"rope_dim, was {self.head_dim}"
            )

    def _check_hybrid(self) -> None:
        """Refuse recurrent layers and lone MLPs beside what is not modelled with them."""
        name = f"of model {self.name!r}"
        if self.mlp_layers is not None:
            _check.count(f"mlp_layers {name}", self.mlp_layers)
            if self.experts is not None:
                raise ConfigError(
                    f"mlp_layers {name} must be left out where there are experts, was {self.mlp_layers}: "
                    f"layers that are experts alone are not modelled"
                )
        if self.attention_layers < 1:
            recurrent = 0 if self.recurrent is None else self.recurrent.layers
            raise ConfigError(
                f"layers {name} must leave one for attention beside {recurrent} recurrent and "
                f"{self.mlp_layers or 0} mlp_layers, was {self.layers}"
            )
        if not self.gated_mlp and self.experts is not None:
            raise ConfigError(f"gated_mlp {name} must be true where there are experts, was false")
        if self.recurrent is None:
            return
        for field in ("latent", "sliding_window"):
            if getattr(self, field) is not None:
                raise ConfigError(
                    f"{field} {name} must be left out beside recurrent layers: they are not modelled together"
                )
        if self.recurrent.layers < self.attention_layers:
            raise ConfigError(
                f"layers of the recurrent layers {name} must be at least its {self.attention_layers} with "
                f"attention, was {self.recurrent.layers}: vLLM would divide those into several "
                f"groups, which is not modelled"
            )
