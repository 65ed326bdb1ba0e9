"""Splitwise's machines and the clusters that are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from paceline import policies
from paceline.cost import Affine
from paceline.deployment import Cluster, Instance, Links, Medium, Port
from paceline.policy import Policy, Scheduler
from paceline.policy.stages import Admit, Decodes, Prefills
from paceline.study.paper import Paper

__all__ = [
    "ISO_COST",
    "ISO_POWER",
    "MACHINES",
    "PAPER",
    "READINGS",
    "Design",
    "Machine",
    "Reading",
    "cost_of",
    "pools_of",
]

PAPER: Final = Paper.load("paceline.study.splitwise")


Reading: TypeAlias = Literal["splitwise-sim", "measured"]
"""How long a decode step takes: as the authors' simulator reads their measurements, or as these say."""

READINGS: Final[tuple[Reading, ...]] = ("splitwise-sim", "measured")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A DGX that serves BLOOM-176B on its eight GPUs.

    Parameters
    ----------
    prompt_s
        Seconds of a prompt, by its tokens.
    decode_s
        Seconds of a decode step, by its requests; each has some 576 tokens.
    context_s
        Seconds that a token of context adds to a decode step.
    cost, power
        In the authors' units.
    link
        The InfiniBand port of each GPU.
    """

    prompt_s: Mapping[int, float]
    decode_s: Mapping[int, float]
    context_s: float
    cost: float
    power: float
    link: str


#: Medians of perf_model.csv, bloom-176b at tensor parallelism 8; costs and powers of notebooks/utils.py
#: (github.com/Mutinifni/splitwise-sim at 8f99e7dc). The context's share is between 512 and 8,192 tokens.
_A100: Final = Machine(
    prompt_s={512: 0.1738, 1024: 0.2892, 2048: 0.5404, 4096: 1.3482, 8192: 3.5932},
    decode_s={1: 0.04876, 8: 0.05295, 16: 0.05734, 32: 0.06538, 64: 0.09658},
    context_s=(0.05130 - 0.04876) / 7680,
    cost=2.21,
    power=24.8,
    link="infiniband-hdr",
)
_H100: Final = Machine(
    prompt_s={512: 0.0755, 1024: 0.1326, 2048: 0.2531, 4096: 0.6887, 8192: 1.5354},
    decode_s={1: 0.03611, 8: 0.03814, 16: 0.04064, 32: 0.04584, 64: 0.06382},
    context_s=(0.03744 - 0.03611) / 7680,
    cost=4.76,
    power=44.0,
    link="infiniband-ndr",
)
MACHINES: Final[Mapping[str, Machine]] = {
    "A100": _A100,
    "H100": _H100,
    # Tokens take as long at 70% of the power in perf_model.csv; the file has prompts 1.3 times as long.
    "H100, capped": replace(_H100, power=0.7 * _H100.power),
}

_STEP_TOKENS: Final = 2048
_KV_BYTES: Final = 70 * 2 * 14_336 * 2
"""A token's keys and values: 70 layers of 14,336 numbers each, in two bytes."""
_KV_BLOCKS: Final = (8 * 85_899_345_920 - 329_000_000_000) // (16 * _KV_BYTES)
"""Blocks of 16 tokens beside the weights: splitwise-sim's sizes of GPUs and of bloom-176b-fp16."""


def cost_of(machine: str, reading: Reading = "measured", *, tokens: bool = False) -> Affine:
    """Return the time of a step: the line through a decode of one request and a prompt of 2,048 tokens.

    Parameters
    ----------
    machine
        Of `MACHINES`.
    reading
        ``"measured"`` adds the context's share to decodes.
    tokens
        Whether it is of the pool for tokens, whose steps splitwise-sim has take no longer for more requests.
    """
    of = MACHINES[machine]
    if reading == "splitwise-sim" and tokens:
        return Affine(step_s=of.decode_s[1])
    token_s = (of.prompt_s[_STEP_TOKENS] - of.decode_s[1]) / _STEP_TOKENS
    return Affine(
        step_s=of.decode_s[1], token_s=token_s, kv_token_s=of.context_s if reading == "measured" else 0.0
    )


def _scheduler() -> Scheduler:
    """Return how machines form steps: prompts first, in 2,048 tokens; a longer one takes several steps."""
    return Scheduler(
        max_num_batched_tokens=_STEP_TOKENS,
        max_num_seqs=512,
        stages=(Prefills(), Admit(unless_preempted=True), Decodes(over_prefills=False)),
        allocation="sequence",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A cluster: machines that run both phases, or a pool for prompts and one for tokens.

    Parameters
    ----------
    name
        As in the paper.
    prompt, token
        The machines of the pools; the same where there are none.
    prompts, tokens
        How many; no ``tokens`` for machines that run both.
    """

    name: str
    prompt: str
    token: str
    prompts: int
    tokens: int = 0

    @property
    def machines(self) -> list[str]:
        """All machines, those of the prompt pool first."""
        return [self.prompt] * self.prompts + [self.token] * self.tokens

    @property
    def pools(self) -> str:
        """The sizes of its pools, as the paper writes them."""
        return f"{self.prompts}P, {self.tokens}T" if self.tokens else f"{self.prompts}P/T"

    def total(self, what: str) -> float:
        """Return the ``cost`` or the ``power`` of all machines."""
        return sum(float(getattr(MACHINES[name], what)) for name in self.machines)

    def cluster(self, reading: Reading) -> Cluster:
        """Return its instances, each with the InfiniBand ports of its eight GPUs."""
        instances = [
            Instance(
                cost=cost_of(name, reading, tokens=at >= self.prompts),
                num_blocks=_KV_BLOCKS,
                kv_bytes=_KV_BYTES,
            )
            for at, name in enumerate(self.machines)
        ]
        if not self.tokens:
            return Cluster(instances)
        ports = [Medium.load(MACHINES[name].link).beside(8) for name in self.machines]
        others = tuple(
            Port(instance=at, outer=port) for at, port in enumerate(ports) if port.gbps != ports[0].gbps
        )
        return Cluster(instances, links=Links(port=ports[0], ports=others))

    def policy(self) -> Policy:
        """Return the paper's scheduler of its pools, or of machines that run both phases."""
        if not self.tokens:
            return policies.splitwise_router("token_jsq", scheduler=_scheduler())
        return policies.splitwise(prompt=self.prompts, token=self.tokens, scheduler=_scheduler())


_POWER: Final = {
    "conversation": {"AA": (45, 25), "HH": (25, 15), "HA": (25, 26), "HHcap": (25, 21)},
    "code": {"AA": (55, 15), "HH": (35, 5), "HA": (35, 8), "HHcap": (35, 7)},
}
"""Pools of as much power as 40 H100 machines, by trace: notebooks/plots.ipynb."""

_COST: Final = {"AA": (51, 35), "HH": (25, 15), "HA": (30, 21), "HHcap": (30, 10)}
"""Pools of as much cost as 40 H100 machines, for conversations: likewise."""

_TYPES: Final = {
    "AA": ("A100", "A100"),
    "HH": ("H100", "H100"),
    "HA": ("H100", "A100"),
    "HHcap": ("H100", "H100, capped"),
}


def _designs(a100: int, pools: Mapping[str, tuple[int, int]]) -> dict[str, Design]:
    """Return the designs of a budget by name: baselines, and pools of the sizes given."""
    found = [
        Design(name="Baseline-A100", prompt="A100", token="A100", prompts=a100),
        Design(name="Baseline-H100", prompt="H100", token="H100", prompts=40),
    ]
    for name, (prompts, tokens) in pools.items():
        prompt, token = _TYPES[name]
        found.append(
            Design(name=f"Splitwise-{name}", prompt=prompt, token=token, prompts=prompts, tokens=tokens)
        )
    return {design.name: design for design in found}


ISO_POWER: Final = {trace: _designs(70, pools) for trace, pools in _POWER.items()}
ISO_COST: Final = _designs(86, _COST)


def pools_of(name: str, prompts: int) -> Design:
    """Return a design of as much power as 40 H100 machines, with so many machines for prompts.

    Examples
    --------
    >>> pools_of("Splitwise-HA", 25).pools
    '25P, 26T'
    """
    prompt, token = _TYPES[name.removeprefix("Splitwise-")]
    left = 40 * MACHINES["H100"].power - prompts * MACHINES[prompt].power
    return Design(
        name=name, prompt=prompt, token=token, prompts=prompts, tokens=int(left / MACHINES[token].power)
    )
