"""Which kernels of a model are measured, and at what sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline.errors import ConfigError
from paceline.model import Model
from paceline.profiling.work import Attention, Elementwise, Experts, Lookup, Product, Sampling, Work

__all__ = ["Axes", "Place", "plan"]

#: Where a measurement belongs: kernel, layer and sizes, as :func:`paceline.kernels.write_parquet` has them.
Place = tuple[str | int, ...]


def _doubling(first: int, last: int) -> tuple[int, ...]:
    points = [first]
    while points[-1] * 2 < last:
        points.append(points[-1] * 2)
    return (*points, last) if last > first else (first,)


def _halves(points: tuple[int, ...]) -> tuple[int, ...]:
    """Return the points and the middles between them."""
    middles = [(low + high) // 2 for low, high in itertools.pairwise(points)]
    return tuple(sorted({*points, *middles}))


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Axes:
    """The sizes to measure, each doubling from the least on.

    Tokens of a step have the middles as well: a matrix product takes a jump at each tile of rows, so that 192
    tokens take up to 7% more than halfway between 128 and 256 (docs/validation.md, steps on an H100).

    Parameters
    ----------
    tokens
        The most tokens of a step.
    requests
        The most requests of a step.
    context
        The longest context, and history of a prompt.

    Examples
    --------
    >>> Axes(tokens=8, requests=2, context=64).all_tokens
    (1, 2, 3, 4, 6, 8)
    """

    tokens: int = 8192
    requests: int = 256
    context: int = 16384

    def __post_init__(self) -> None:
        for name, least in (("tokens", 1), ("requests", 1), ("context", 16)):
            _check.count(f"{name} of Axes", getattr(self, name), least=least)

    @property
    def all_tokens(self) -> tuple[int, ...]:
        """Tokens of a step."""
        return _halves(_doubling(1, self.tokens))

    @property
    def all_requests(self) -> tuple[int, ...]:
        """Requests of a step."""
        return _doubling(1, self.requests)

    @property
    def chunks(self) -> tuple[int, ...]:
        """Prompt tokens of a step."""
        return _doubling(min(16, self.tokens), self.tokens)

    @property
    def contexts(self) -> tuple[int, ...]:
        """Tokens of a decoding request's context."""
        return _doubling(16, self.context)

    @property
    def histories(self) -> tuple[int, ...]:
        """Prompt tokens computed before."""
        return (0, *(point for point in _doubling(512, max(self.context, 512)) if point <= self.context))


@typed()
def plan(model: Model, axes: Axes, *, tensor_parallel: int = 1) -> Iterator[tuple[Place, Work]]:
    """Yield what to measure of one rank, each with its place in a profile.

    Parameters
    ----------
    model
        The model.
    axes
        The sizes.
    tensor_parallel
        Ranks that it is split over; only one is measured, and no exchange.

    Raises
    ------
    ConfigError
        If attention is latent or slides or has a gate, or layers have states in place of it, for which there
        is no kernel here, or the model cannot be split so.
    """
    plain = model.latent is None and not model.window_layers and not model.output_gate
    if not plain or model.attention_layers < model.layers:
        raise ConfigError(
            f"model to profile must have full attention of grouped queries in all layers, "
            f"{model.name!r} has not"
        )
    model.check_parallel(tensor_parallel)
    return _works(model, axes, tensor_parallel)


def _works(model: Model, axes: Axes, ranks: int) -> Iterator[tuple[Place, Work]]:
    for layer, of in _dense(model, ranks).items():
        for n in axes.all_tokens:
            yield ("dense", layer, n), of(n)
    vocab = model.vocab_size // ranks
    for n in axes.all_requests:
        yield ("per_sequence", "lm_head", n), Product(n, model.hidden_size, vocab)
        yield ("per_sequence", "sampler", n), Sampling(n, model.vocab_size)
    heads, shared = model.heads // ranks, model.kv_heads_per_rank(ranks)
    for n in axes.all_requests:
        for context in axes.contexts:
            place = (0, 0, n, context)
            yield ("attention", *place), Attention(*place, heads, shared, model.head_dim)
    for chunk in axes.chunks:
        for history in axes.histories:
            place = (chunk, history, 0, 0)
            yield ("attention", *place), Attention(*place, heads, shared, model.head_dim)
    experts = model.experts
    if experts is not None:
        width = experts.intermediate_size // ranks
        for activated in _doubling(experts.per_token, experts.count):
            for n in axes.all_tokens:
                if activated <= n * experts.per_token:
                    work = Experts(n, activated, experts.per_token, model.hidden_size, width)
                    yield ("experts", activated, n), work


def _dense(model: Model, ranks: int) -> dict[str, _Sized]:
    """Return the layers by tokens."""
    hidden, head = model.hidden_size, model.head_dim
    query, key = model.heads // ranks * head, model.kv_heads_per_rank(ranks) * head
    layers: dict[str, _Sized] = {
        "embedding": _Sized(Lookup, (model.vocab_size // ranks, hidden)),
        "layernorm": _Sized(Elementwise, (hidden,), "norm"),
        "final_layernorm": _Sized(Elementwise, (hidden,), "norm"),
        "qkv_proj": _Sized(Product, (hidden, query + 2 * key)),
        "rotary_emb": _Sized(Elementwise, (query + key,), "rotary"),
        "o_proj": _Sized(Product, (query, hidden)),
    }
    if model.qk_norm:
        layers["qk_norm"] = _Sized(Elementwise, (query + key,), "norm")
    if model.dense_layers:
        layers |= _gated("gate_up_proj", "act_fn", "down_proj", hidden, model.intermediate_size // ranks)
    if model.experts is not None:
        layers["router"] = _Sized(Product, (hidden, model.experts.count))
    return layers


def _gated(up: str, act: str, down: str, hidden: int, width: int) -> dict[str, _Sized]:
    return {
        up: _Sized(Product, (hidden, 2 * width)),
        act: _Sized(Elementwise, (width,), "gate"),
        down: _Sized(Product, (width, hidden)),
    }


@dataclass(frozen=True, slots=True)
class _Sized:
    """A layer's work, by tokens."""

    cls: type[Product] | type[Elementwise] | type[Lookup]
    widths: tuple[int, ...]
    kind: str = ""

    def __call__(self, tokens: int) -> Work:
        if self.cls is Elementwise:
            return Elementwise(self.kind, tokens, *self.widths)
        return self.cls(tokens, *self.widths)  # type: ignore[arg-type]
