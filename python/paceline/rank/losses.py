"""The three losses of learning to rank by length, each with its gradient.

A higher score stands for a longer answer throughout. The functions are for NumPy, and are what the light
family trains with; the neural family's own, in PyTorch, are tested against them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["Floats", "l1", "list_mle", "margin_ranking"]

Floats = npt.NDArray[np.float64]


def margin_ranking(
    first: Floats, second: Floats, label: npt.NDArray[np.int8] | Floats, margin: float = 1.0
) -> tuple[float, Floats]:
    """Return the mean margin ranking loss of pairs, and its gradient by the first scores.

    The loss of a pair is ``max(0, -label * (first - second) + margin)`` (PARS, section III.A). The gradient
    by the second scores is the negative of the returned one. At the kink the gradient is 0.

    Parameters
    ----------
    first, second
        Scores.
    label
        1 where the first is to score higher, -1 where the second is.
    margin
        The least difference of the scores of a pair that costs nothing.

    Examples
    --------
    >>> import numpy as np
    >>> margin_ranking(np.array([2.0, 0.5]), np.array([0.5, 1.0]), np.array([1, 1]))[0]
    0.75
    """
    slack = margin - label * (first - second)
    violated = slack > 0
    return float(np.where(violated, slack, 0.0).mean()), np.where(violated, -label / len(slack), 0.0)


def list_mle(scores: Floats) -> tuple[float, Floats]:
    """Return the mean ListMLE loss of lists that are sorted from the longest on, and its gradient.

    The loss of a list is the negative logarithm of the probability that its order is drawn by the model of
    Plackett and Luce: the sum over positions of ``log(sum(exp(scores[i:]))) - scores[i]`` (Xia et al., ICML
    2008).

    Parameters
    ----------
    scores
        A row for each list.

    Examples
    --------
    >>> import numpy as np
    >>> bool(np.isclose(list_mle(np.zeros((1, 3)))[0], np.log(6)))  # six orders are equally likely
    True
    """
    top = scores.max(axis=1, keepdims=True)
    weights = np.exp(scores - top)
    tails = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1]
    # A tail may round to 0 where the scores span more than 700.
    tails = np.maximum(tails, np.finfo(np.float64).tiny)
    loss = (np.log(tails) + top - scores).sum(axis=1).mean()
    gradient = weights * np.cumsum(1.0 / tails, axis=1) - 1.0
    return float(loss), gradient / len(scores)


def l1(scores: Floats, targets: Floats) -> tuple[float, Floats]:
    """Return the mean absolute error, and its gradient by the scores.

    Examples
    --------
    >>> import numpy as np
    >>> l1(np.array([1.0, 4.0]), np.array([2.0, 2.0]))[0]
    1.5
    """
    error = scores - targets
    return float(np.abs(error).mean()), np.sign(error) / len(error)
