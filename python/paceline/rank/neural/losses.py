"""The losses of `paceline.rank.losses` in PyTorch, of the scores of one batch of prompts."""

from __future__ import annotations

from typing import Any

from paceline.rank.neural.batches import Batch
from paceline.rank.neural.libraries import torch_module
from paceline.rank.objectives import Comparisons, Lists

__all__ = ["batch_loss", "list_mle"]


def batch_loss(batch: Batch, scores: Any) -> Any:  # noqa: ANN401 - tensors
    """Return the loss of a batch as a tensor to differentiate."""
    torch = torch_module()
    functional = torch.nn.functional
    examples = batch.examples
    if isinstance(examples, Comparisons):
        first, second = (torch.from_numpy(each) for each in (examples.pairs.first, examples.pairs.second))
        label = torch.from_numpy(examples.pairs.label).to(scores.dtype)
        return functional.margin_ranking_loss(
            scores[first], scores[second], label.to(scores.device), margin=examples.margin
        )
    if isinstance(examples, Lists):
        return list_mle(scores[torch.from_numpy(examples.members)]) / examples.members.shape[1]
    targets = torch.from_numpy(examples.targets).to(scores.dtype).to(scores.device)
    return functional.l1_loss(scores, targets)


def list_mle(scores: Any) -> Any:  # noqa: ANN401 - tensors
    """Return the mean ListMLE loss of lists, a row each, sorted from the longest to the shortest."""
    tails = torch_module().logcumsumexp(scores.flip(1), dim=1).flip(1)
    return (tails - scores).sum(dim=1).mean()
