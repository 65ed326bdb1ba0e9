"""Kernels added up to the curves of a step."""

from __future__ import annotations

from collections.abc import Callable

from paceline.errors import ConfigError
from paceline.kernels.collectives import Collective, Link, read_all_reduce
from paceline.kernels.curve import Curve
from paceline.kernels.grid import Grid
from paceline.kernels.profile import KernelProfile
from paceline.kernels.shape import Shape
from paceline.model.dtypes import NORM_BYTES

__all__ = ["StepKernels"]

#: Layers of a decoder block and how often each is in it; experts stand in for the last three of a dense one.
_BLOCK = {
    "layernorm": 2,
    "qkv_proj": 1,
    "qk_norm": 1,
    "rotary_emb": 1,
    "o_proj": 1,
    "gate_up_proj": 1,
    "act_fn": 1,
    "down_proj": 1,
}
_MLP = ("gate_up_proj", "act_fn", "down_proj")
_ONCE = ("embedding", "final_layernorm")
_OPTIONAL = frozenset({"qk_norm", "rotary_emb"})
#: What attention's own times hold where a profile says that they are of the whole of it.
_ATTENTION = ("qkv_proj", "qk_norm", "rotary_emb", "o_proj")
#: What is in a layer with experts where the experts' own times do not hold it.
_BESIDE_EXPERTS = ("router", "shared_experts")


class StepKernels:
    """The kernels of a profile, added up to the tables of a step."""

    def __init__(
        self,
        profile: KernelProfile,
        shape: Shape,
        *,
        ranks: int,
        stages: int,
        link: Link | None,
        all_reduce: str | None,
        data_parallel: int,
        expert_parallel: bool,
        expert_token_s: float = 0.0,
    ) -> None:
        self.profile = profile
        self.shape = shape
        self.ranks = ranks
        self.stages = stages
        self.link = link
        self.all_reduce = all_reduce
        self.data_parallel = data_parallel
        self.expert_parallel = expert_parallel
        self.expert_token_s = expert_token_s
        if profile.tensor_parallel not in (None, ranks):
            raise ConfigError(
                f"tensor_parallel must be {profile.tensor_parallel}, which {profile.source} is a rank of, "
                f"was {ranks}"
            )
        linked = link is not None or all_reduce is not None or profile.collectives
        if (ranks > 1 or data_parallel > 1) and not linked:
            raise ConfigError("link of a Table must be given where there is more than one rank, was None")

    def tokens(self, *, shared: bool = True) -> Curve:
        """Return what a step takes by its tokens: blocks without attention, and what runs once."""
        dense, shape = self.profile.dense, self.shape
        mixtures = shape.layers - shape.dense_layers if shape.experts else 0
        parts: list[Curve] = []
        for layer, times in _BLOCK.items():
            layers = shape.layers - mixtures if layer in _MLP else shape.layers
            if not layers or (layer in _ATTENTION and self.profile.whole_attention):
                continue
            if layer in dense:
                parts.append((times * layers) * dense[layer])
            elif layer not in _OPTIONAL:
                raise ConfigError(
                    f"{self.profile.source} must have dense layer {layer!r}, had {sorted(dense)}"
                )
        parts += [dense[layer] for layer in _ONCE if layer in dense]
        if mixtures:
            parts += [mixtures * dense[layer] for layer in _BESIDE_EXPERTS if layer in dense]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        if mixtures and shared:
            total = total + self._all_experts(total.at)
        if self.ranks > 1:
            total = total + self._reductions(total.at)
        return total + self._sends(total.at) if self.stages > 1 else total

    def _sends(self, points: tuple[int, ...]) -> Curve:
        """Return what goes from stage to stage: each rank sends its part, and the next ones gather it."""
        link, ranks = self.link, self.ranks
        if link is None:
            raise ConfigError("link of a Table must be given where there is more than one stage, was None")
        message = 2 * self.shape.hidden_size * self.shape.dtype_bytes

        def send(n: int) -> float:
            sent = link.latency_s + n * message / ranks / link.bytes_per_s
            return sent + link.seconds("all_gather", n * message, ranks=ranks)

        return Curve(points, tuple((self.stages - 1) * send(n) for n in points))

    def experts(self) -> Curve | None:
        """Return the experts of all layers, and their exchanges, by the tokens of this rank; None without."""
        return self._all_experts(self.tokens(shared=False).at) if self.shape.experts else None

    def shared(self) -> Curve:
        """Return the same, by the tokens of all ranks."""
        alone = self._all_experts(self.tokens(shared=False).at)
        return Curve(tuple(self.data_parallel * n for n in alone.at), alone.seconds)

    def _all_experts(self, points: tuple[int, ...]) -> Curve:
        return (self.shape.layers - self.shape.dense_layers) * self._experts(points)

    def rows(self) -> Curve:
        """Return what a step takes by its requests: LM head, its gathering over ranks, and sampler."""
        parts = list(self.profile.per_sequence.values())
        if not parts:
            return Curve((1,), (0.0,))
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        if self.ranks > 1:
            row = self.shape.vocab_size * self.shape.dtype_bytes
            gather = self._exchanges("all_gather", "all_gather", self.ranks)
            total = total + Curve(total.at, tuple(gather(n * row) for n in total.at))
        return total

    def attention(self, kind: str) -> Grid:
        """Return one of the three tables of attention."""
        grid: Grid | None = getattr(self.profile, kind)
        if grid is None:
            raise ConfigError(f"{self.profile.source} must have attention of steps that {kind}, had none")
        return grid

    def _reductions(self, points: tuple[int, ...]) -> Curve:
        """Return two all-reduces a block, after attention and after the MLP, the embedding's, and norms'."""
        times, norms = 2 * self.shape.layers + 1, self.shape.norm_reductions
        size = self.shape.hidden_size * self.shape.dtype_bytes
        reduce = self._exchanges("all_reduce", "all_reduce", self.ranks)
        seconds = [times * reduce(n * size) for n in points]
        if norms:
            seconds = [each + norms * reduce(n * NORM_BYTES) for each, n in zip(seconds, points, strict=True)]
        return Curve(points, tuple(seconds))

    def _exchanges(self, name: str, what: Collective, ranks: int) -> Callable[[float], float]:
        """Return seconds over bytes of a collective: measured in a file, on a link, else by the profile."""
        if what == "all_reduce" and self.all_reduce is not None:
            return read_all_reduce(self.all_reduce, ranks=ranks)
        link = self.link
        if link is not None:
            return lambda size: link.seconds(what, size, ranks=ranks)
        # If only all-reduces were measured, nothing is known of other messages: they take no time.
        return self.profile.collectives.get(name, lambda _: 0.0)

    def _experts(self, points: tuple[int, ...]) -> Curve:
        """Return a layer's experts by the tokens of this rank, with what moves tokens to them and back.

        A profile's token is as much work as all the experts that one token is routed to. Under expert
        parallelism the ranks together have ``data_parallel`` times this rank's tokens, of which each rank
        does its share, and which activate that share of the experts that they would in all. Experts that were
        measured on one of as many ranks have that share in them, so their tokens are those of all.
        """
        shape, profile = self.shape, self.profile
        shares = self.data_parallel * self.ranks if self.expert_parallel else 1
        points = tuple(sorted({*points, *(2**i for i in range(12) if 2**i <= points[-1]), *range(1, 65)}))
        times = []
        for n in points:
            together = n * self.data_parallel
            if profile.experts or shares in profile.dealt:
                activated = max(shape.expected_experts(together) / shares, 1.0)
                ranks = shares if shares in profile.dealt else 1
                shared = ranks > 1 or self._is_of_one_of(shares)
                work = together if shared else together / shares
                time = profile.expert_time(work, activated, ranks=ranks)
            elif "experts" in profile.dense:
                time = profile.dense["experts"](together)
            else:
                raise ConfigError(f"kernel profile {profile.source} must have experts for a model with them")
            times.append(max(time, self.expert_token_s * together) + self._exchange(n))
        return Curve(points, tuple(times))

    def _is_of_one_of(self, shares: int) -> bool:
        """Whether experts that do not say so were measured on one of several ranks.

        Then one token activates a rank's share of the experts that it is routed to, and no number of tokens
        more than the rank has.
        """
        counts = self.profile.experts
        if shares == 1 or not counts:
            return False
        fewest, most = min(counts), max(counts)
        return fewest * shares <= self.shape.experts_per_token and most * shares <= self.shape.experts

    def _exchange(self, tokens: int) -> float:
        """Return what it takes to gather the tokens of all data-parallel ranks, and to scatter their sums.

        vLLM's default, ``allgather_reducescatter``: hidden states and the router's logits one way, hidden
        states the other.
        """
        shape, ranks = self.shape, self.data_parallel
        if ranks == 1:
            return 0.0
        together = tokens * ranks * shape.dtype_bytes
        out = self._exchanges("dispatch", "all_gather", ranks)(together * (shape.hidden_size + shape.experts))
        return out + self._exchanges("combine", "reduce_scatter", ranks)(together * shape.hidden_size)
