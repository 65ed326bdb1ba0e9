"""A model: the shape of a decoder, its catalog, and the weights and KV cache that it takes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from os import PathLike
from typing import Any

from paceline import catalog
from paceline._arguments import typed
from paceline._toml import build, dump, parse, table
from paceline.model.dtypes import MATRIX_BYTES
from paceline.model.huggingface import read_config
from paceline.model.shape import DecoderShape
from paceline.model.weights import count_weights

__all__ = ["Model", "model_names"]


def model_names() -> tuple[str, ...]:
    """Return the names of the models that come with Paceline.

    Examples
    --------
    >>> "llama-3.1-8b" in model_names()
    True
    """
    return catalog.names("model")


class Model(DecoderShape):
    """The shape of a decoder, dense or with experts.

    Parameters
    ----------
    name
        Its name in reports.
    layers
        Decoder blocks.
    hidden_size
        Width of the residual stream.
    heads, kv_heads
        Query heads, and the key and value heads that they share.
    head_dim
        Width of one head's query and key; ``heads * head_dim`` need not be ``hidden_size``.
    intermediate_size
        Width of the gated MLP of dense layers.
    vocab_size
        Rows of the embedding and of the LM head.
    tied_embeddings
        Whether those two are the same matrix.
    max_positions
        The longest sequence, in tokens, that the model is made for.
    dtype
        ``"bfloat16"`` or ``"float16"``, of activations, and of weights without a type of their own.
    qkv_bias, output_bias, norm_bias, lm_head_bias
        Whether those add a bias.
    qk_norm, qk_norm_whole
        Whether queries and keys are normalised head by head, or over all heads of a layer together: then
        tensor-parallel ranks add up two 32-bit squares a token in each layer, by an all-reduce of their own
        (``MiniMaxText01RMSNormTP.forward_qk`` of vLLM).
    attention_sinks
        Whether each head has a learned number in its softmax's denominator.
    sliding_window, sliding_layers
        Tokens that a query of some layers sees, its own among them, and how many layers those are.
    weight_dtype
        Of the matrices of attention, MLPs and experts: ``"auto"`` (``dtype``), ``"fp8"`` or ``"nvfp4"``, or a
        type of 16 bits.
    attention_dtype, output_dtype
        Of attention's matrices, and of its output projection, where they have other types: published
        checkpoints in NVFP4 leave attention at 16 bits, and some of these quantise the output projection.
        ``"auto"``: as ``weight_dtype``, and as ``attention_dtype``.
    experts
        The mixture of experts; ``None`` for a dense model.
    latent
        The widths of latent attention (MLA); ``None`` for grouped queries.
    recurrent
        The layers with a state of constant size in place of a cache (Gated DeltaNet, Mamba-2); ``None`` if
        all layers have attention. See :class:`~paceline.model.Recurrent`.
    mlp_layers
        Layers that are an MLP alone; the other layers then have none, and each layer has one norm
        (Nemotron-H). ``None``: each layer mixes tokens and has an MLP or experts.
    gated_mlp
        Whether dense MLPs have three matrices, a gate among them; else two.
    output_gate
        Whether queries are projected with a gate of the same width, which scales attention's output.

    Raises
    ------
    ConfigError
        If a number is not a whole one in its range, or the query heads cannot share the key and value heads.

    Examples
    --------
    >>> model = Model.load("llama-3.1-8b")
    >>> model.parameters
    8030261248
    >>> model.kv_bytes_per_token()
    131072
    >>> mixture = Model.load("qwen3-30b-a3b")
    >>> f"{mixture.parameters / 1e9:.1f} B, {mixture.active_parameters / 1e9:.1f} B active"
    '30.5 B, 3.0 B active'
    >>> hybrid = Model.load("qwen3-next-80b-a3b")    # 12 layers with attention, 36 with a state
    >>> hybrid.kv_bytes_per_token(), hybrid.state_bytes()
    (24576, 39518208)
    """

    __slots__ = ()

    @classmethod
    @typed()
    def load(cls, name: str) -> Model:
        """Return a model that comes with Paceline.

        Raises
        ------
        ConfigError
            If there is no model of that name; the message names close ones.

        Examples
        --------
        >>> Model.load("qwen3-32b").layers
        64
        """
        return _loaded(name)

    @classmethod
    @typed()
    def from_hf_config(
        cls, config: str | PathLike[str] | Mapping[str, Any], *, name: str | None = None
    ) -> Model:
        """Read a model from a Hugging Face ``config.json``.

        Parameters
        ----------
        config
            The file, the folder that holds it, or its content.
        name
            Its name in reports; by default that of the file, else the folder's name.

        Raises
        ------
        ConfigError
            If the file cannot be read, or does not describe a decoder of a known family (Llama, Mistral,
            Mixtral, Qwen2, Qwen3, Qwen3-MoE, Qwen3-Next, Phi-3.5-MoE, gpt-oss, DeepSeek-V2 and V3,
            Nemotron-H), or is quantised in
            another way than those (blocks of fp8, mxfp4 experts).

        Examples
        --------
        >>> Model.from_hf_config({
        ...     "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
        ...     "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 1000,
        ...     "max_position_embeddings": 512, "torch_dtype": "bfloat16",
        ... }, name="tiny").head_dim
        16
        """
        fields = read_config(config)
        return cls(**(fields if name is None else fields | {"name": name}))

    @property
    def parameters(self) -> int:
        """Weights of the whole model, biases and norms among them."""
        return round(count_weights(self).total)

    @property
    def active_parameters(self) -> int:
        """Weights that a token is multiplied with: its experts and all else but the embedding.

        Of the embedding a token reads one row. Publishers differ here: gpt-oss and DeepSeek count so, Qwen
        and Mixtral count the embedding in.
        """
        weights = count_weights(self)
        embedding = 0 if self.tied_embeddings else self.vocab_size * self.hidden_size
        idle = 0.0
        if self.experts is not None:
            share = 1 - self.experts.per_token / self.experts.count
            idle = weights.experts * share
            if self.experts.bias:
                width = 2 * self.experts.intermediate_size + self.hidden_size
                idle += (self.layers - self.experts.dense_layers) * self.experts.count * width * share
        return round(weights.total - embedding - idle)

    @typed()
    def weight_bytes(self, tensor_parallel: int = 1, *, expert_ranks: int | None = None) -> int:
        """Return the bytes of weights on one rank.

        Matrices and embeddings are split; norms and routers are repeated, and so are key and value heads
        where there are fewer than ranks (vLLM's ``QKVParallelLinear``).

        Parameters
        ----------
        tensor_parallel
            Ranks that the model is split over.
        expert_ranks
            Ranks that whole experts are distributed over: those of tensor parallelism times those of data
            parallelism. By default experts are split over the tensor-parallel ranks, with the same bytes.
        """
        self.check_parallel(tensor_parallel, expert_ranks=expert_ranks)
        weights = count_weights(self, tensor_parallel, expert_ranks)
        numbers: dict[str, float] = {}
        for dtype, number in (
            (self.dtype, weights.embeddings),
            (self.projection_dtype, weights.projections),
            (self.output_projection_dtype, weights.outputs),
            (self.matrix_dtype, weights.matrices),
            (self.expert_dtype, weights.experts),
            (self.dtype, weights.small),
            ("float32", weights.wide),
        ):
            numbers[dtype] = numbers.get(dtype, 0.0) + number
        return sum(round(round(number) * MATRIX_BYTES[dtype]) for dtype, number in numbers.items())

    def to_toml(self) -> str:
        """Return the model as the text of a TOML file."""
        return dump(table(self))

    @classmethod
    @typed()
    def from_toml(cls, text: str) -> Model:
        """Read what :meth:`to_toml` wrote."""
        return build(cls, parse(text, "a model"), "a model")


@functools.lru_cache(maxsize=256)
def _loaded(name: str) -> Model:
    return build(Model, {"name": name, **catalog.load("model", name)}, f"model {name!r}")
