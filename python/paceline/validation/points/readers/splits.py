"""How instances share a model, by the counts of GPUs that data have."""

from __future__ import annotations

from paceline.validation.points.point import Split
from paceline.validation.points.refusals import MIXED_EXPERTS, WIDE, NotModelled

__all__ = ["by_recipe", "split_of"]

#: GPUs of a node, between which the exchanges of tables were measured.
_NODE = 8
#: GPUs of a node of GB200.
_TRAY = 4


def by_recipe(gpus: int, dealt: int) -> bool:
    """Whether a recipe splits attention over all GPUs of a tray where the data have a rank on each.

    Rows of SGLang on GB200, instances apart: so the files ``low-latency.yaml`` of ishandhanani/srt-slurm
    (``tensor-parallel-size: 4``, ``data-parallel-size: 1``, ``expert-parallel-size: 1``); later rows of the
    same loads say so, too, and their TPOT agrees.
    """
    return gpus == _TRAY and dealt == 1


def split_of(gpus: int, dealt: int, *, ranks: bool) -> Split:
    """Return the split of so many GPUs, over ``dealt`` of which whole experts are dealt out.

    Parameters
    ----------
    gpus
        GPUs of an instance.
    dealt
        As many, or 1: each expert is split over all.
    ranks
        Whether each GPU is a rank of attention; else attention is split over all.

    Raises
    ------
    NotModelled
        If there are too many, or experts are both split and dealt out.

    Examples
    --------
    >>> split_of(8, 8, ranks=True)
    Split(tensor_parallel=1, data_parallel=8, expert_parallel=True)
    """
    if gpus > _NODE:
        raise NotModelled(WIDE)
    if dealt not in (1, gpus):
        raise NotModelled(MIXED_EXPERTS)
    return Split(1 if ranks else gpus, gpus if ranks else 1, dealt > 1)
