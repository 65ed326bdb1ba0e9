"""Layers that keep a state of constant size in place of a cache."""

from __future__ import annotations

from dataclasses import dataclass

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline.errors import ConfigError
from paceline.model.dtypes import DTYPE_BYTES

__all__ = ["Recurrent"]

_KINDS = ("gated_delta_net", "mamba2")
_STATE_BYTES = DTYPE_BYTES | {"float32": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Recurrent:
    """The layers of a hybrid model whose memory does not grow with the context.

    Both kinds have queries, keys and values in heads, a short convolution over all three, and one matrix of
    ``key_dim`` by ``value_dim`` for each value head, which each token updates. Gated DeltaNet
    (arXiv:2412.06464) names them so; Mamba-2 (arXiv:2405.21060) names them C, B and x, the key heads groups,
    ``key_dim`` the state's size, and ``value_dim`` a head's width.

    Parameters
    ----------
    kind
        ``"gated_delta_net"`` or ``"mamba2"``.
    layers
        Layers of the model that are of this kind.
    key_heads, value_heads
        Heads of queries and keys, and those of values, which share them.
    key_dim, value_dim
        Width of one head's key, and of its value.
    conv_kernel
        Tokens that the convolution sees, its own among them.
    conv_bias
        Whether the convolution adds a bias.
    chunk_tokens
        Tokens of a prompt that the kernel computes at once: 64 in vLLM for Gated DeltaNet, ``chunk_size`` of
        the config for Mamba-2.
    state_dtype
        Of the matrices: ``"auto"`` (the model's, as in vLLM's ``--mamba-ssm-cache-dtype``), ``"float32"``,
        ``"bfloat16"``, ``"float16"`` or ``"fp8"``. The convolution keeps its tokens in the model's.

    Raises
    ------
    ConfigError
        If the kind or type is not known, a number is not a whole one in its range, or the value heads cannot
        share the key heads.

    Examples
    --------
    >>> layer = Recurrent(kind="gated_delta_net", layers=36, key_heads=16, value_heads=32, key_dim=128,
    ...                   value_dim=128, conv_kernel=4)
    >>> layer.state_bytes(number=2)    # 32 matrices of 128 * 128, and 3 tokens of 8,192 channels
    1097728
    """

    kind: str
    layers: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_kernel: int
    conv_bias: bool = False
    chunk_tokens: int = 64
    state_dtype: str = "auto"

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise ConfigError(f"kind of Recurrent must be one of {', '.join(_KINDS)}, was {self.kind!r}")
        for field in (
            "layers",
            "key_heads",
            "value_heads",
            "key_dim",
            "value_dim",
            "conv_kernel",
            "chunk_tokens",
        ):
            _check.count(f"{field} of Recurrent", getattr(self, field))
        if self.value_heads % self.key_heads:
            raise ConfigError(
                f"value_heads of Recurrent must be a multiple of its {self.key_heads} key_heads, "
                f"was {self.value_heads}"
            )
        if self.state_dtype != "auto" and self.state_dtype not in _STATE_BYTES:
            known = ", ".join(_STATE_BYTES)
            raise ConfigError(
                f"state_dtype of Recurrent must be auto or one of {known}, was {self.state_dtype!r}"
            )

    @property
    def inner(self) -> int:
        """Width of the values of all heads."""
        return self.value_heads * self.value_dim

    @property
    def scalars(self) -> int:
        """Numbers of a token for each value head: its step, and in Gated DeltaNet its decay besides."""
        return 2 if self.kind == "gated_delta_net" else 1

    @typed()
    def key_heads_per_rank(self, ranks: int = 1) -> int:
        """Return the key heads on one rank: a single one is repeated."""
        return max(1, self.key_heads // ranks)

    @typed()
    def channels(self, ranks: int = 1) -> int:
        """Return the numbers of a token that pass the convolution on one rank: queries, keys and values."""
        return 2 * self.key_heads_per_rank(ranks) * self.key_dim + self.inner // ranks

    @typed()
    def projected(self, ranks: int = 1) -> int:
        """Return the width of the input projection on one rank: the channels, the gate, and the scalars."""
        return self.channels(ranks) + (self.inner + self.scalars * self.value_heads) // ranks

    @typed()
    def small(self, ranks: int = 1) -> int:
        """Return the weights of a layer outside its two projections, on one rank.

        The convolution; a decay and a bias of the step for each head, in Mamba-2 a skip besides; and the norm
        before the output, as wide as a head in Gated DeltaNet and as all heads in Mamba-2.
        """
        conv = self.channels(ranks) * (self.conv_kernel + (1 if self.conv_bias else 0))
        heads = self.value_heads // ranks
        if self.kind == "gated_delta_net":
            return conv + 2 * heads + self.value_dim
        return conv + 3 * heads + self.inner // ranks

    @typed()
    def state_bytes(self, ranks: int = 1, *, number: int) -> int:
        """Return the bytes that a request keeps in one layer, on one rank, whatever its context.

        They are vLLM's (``mamba_utils.py::MambaStateShapeCalculator``).

        Parameters
        ----------
        ranks
            Tensor-parallel ranks.
        number
            Bytes of one number of the model's type.
        """
        each = number if self.state_dtype == "auto" else _STATE_BYTES[self.state_dtype]
        matrices = self.value_heads // ranks * self.key_dim * self.value_dim
        return matrices * each + (self.conv_kernel - 1) * self.channels(ranks) * number

    @typed()
    def check_parallel(self, ranks: int, name: str) -> None:
        """Refuse a number of ranks that the heads of model ``name`` cannot be split over, as vLLM does."""
        if self.value_heads % ranks:
            raise ConfigError(
                f"tensor_parallel must divide the {self.value_heads} value_heads of {name!r}, was {ranks}"
            )
        if self.key_heads % ranks and not (self.kind == "mamba2" and self.key_heads == 1):
            raise ConfigError(
                f"tensor_parallel must divide the {self.key_heads} key_heads of {name!r}, was {ranks}"
            )
