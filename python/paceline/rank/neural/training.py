"""Training an encoder: AdamW with a linear warm-up and decay, clipped gradients, and the best epoch kept."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from paceline import _check
from paceline.errors import RankError
from paceline.rank.backend import Progress, Training
from paceline.rank.neural.batches import Within, batches
from paceline.rank.neural.encoder import Encoder
from paceline.rank.neural.libraries import torch_module
from paceline.rank.neural.losses import batch_loss
from paceline.rank.pairs import draw_pairs

__all__ = ["Schedule", "pair_accuracy", "train"]

_WEIGHT_DECAY: Final = 0.01
_WARM_UP: Final = 0.1
_CLIP: Final = 1.0

# The head starts from nothing, and learns this many times faster than the encoder.
_HEAD_RATE: Final = 10.0

_VALIDATION_PARTNERS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How an encoder is trained.

    Parameters
    ----------
    epochs
        Passes over the samples.
    batch
        Prompts of a step, or pairs if partners are drawn among all samples.
    rate
        The highest learning rate of the encoder.
    partners_within
        ``"batch"`` or ``"all"``; see `paceline.rank.neural.batches`.
    """

    epochs: int = 4
    batch: int = 32
    rate: float = 1e-4
    partners_within: Within = "batch"

    def __post_init__(self) -> None:
        _check.count("epochs", self.epochs)
        _check.count("batch", self.batch, least=2)
        _check.positive("rate", self.rate)
        _check.one_of("partners_within", self.partners_within, ("batch", "all"), RankError)


def train(
    encoder: Encoder, training: Training, schedule: Schedule, progress: Progress | None = None
) -> list[float]:
    """Train an encoder in place, and keep the epoch that orders most validation pairs rightly.

    Returns
    -------
    list of float
        The pair accuracy of each epoch; empty without validation samples.
    """
    torch = torch_module()
    torch.manual_seed(training.seed)
    tokens = encoder.tokens(training.prompts)
    first = sum(1 for _ in batches(training, size=schedule.batch, within=schedule.partners_within, epoch=0))
    total = schedule.epochs * first
    if not total:
        raise RankError("no batch has samples to compare: more samples, or a larger batch, are needed")
    optimizer = torch.optim.AdamW(
        [
            {"params": list(encoder.body.parameters()), "lr": schedule.rate},
            {"params": list(encoder.head.parameters()), "lr": schedule.rate * _HEAD_RATE},
        ],
        weight_decay=_WEIGHT_DECAY,
        fused=True,
    )
    rise = max(1, math.ceil(_WARM_UP * total))
    falling = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / rise, max(total - step, 1) / max(total - rise, 1), 1.0)
    )
    accuracies: list[float] = []
    best = None
    step = 0
    for epoch in range(schedule.epochs):
        for batch in batches(training, size=schedule.batch, within=schedule.partners_within, epoch=epoch):
            loss = batch_loss(batch, encoder.train([tokens[member] for member in batch.members.tolist()]))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(encoder.parameters(), _CLIP)
            optimizer.step()
            falling.step()
            step += 1
            if progress is not None:
                progress(min(step, total), total)
        if training.validation is not None:
            accuracies.append(pair_accuracy(encoder, training.validation))
            if accuracies[-1] == max(accuracies):
                best = encoder.state()
    if best is not None:
        encoder.restore(best)
    return accuracies


def pair_accuracy(encoder: Encoder, samples: Training) -> float:
    """Return the share of pairs, drawn as the authors draw validation pairs, that scores put in order."""
    scores = encoder.score(encoder.tokens(samples.prompts))
    pairs = draw_pairs(
        samples.lengths, groups=samples.groups, partners=_VALIDATION_PARTNERS, seed=samples.seed + 1
    )
    return float(np.mean((scores[pairs.first] - scores[pairs.second]) * pairs.label > 0))
