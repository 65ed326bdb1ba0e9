"""Charts of layers that are complete as they are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from paceline.report.libraries import altair

__all__ = ["layered"]


def layered(layers: Sequence[Any], *, width: int, height: int, params: Sequence[Any] = ()) -> Any:  # noqa: ANN401
    """Return layers as one chart of Altair's.

    Parameters
    ----------
    layers
        Charts. Those of the same data have it each; a layer that a parameter names has its name.
    width, height
        The size of all, in pixels.
    params
        The parameters of the chart.
    """
    given = {"params": list(params)} if params else {}
    return _class()(layer=list(layers), width=width, height=height, **given)


@cache
def _class() -> Any:  # noqa: ANN401 - Altair's
    """Return the class of these charts.

    Altair makes three deep copies of each layer to move what they share to the chart, for each chart that is
    made, changed or written.
    """
    base = altair().LayerChart

    class Layers(base):  # type: ignore[misc, valid-type]
        def __init__(self, **given: object) -> None:
            super(base, self).__init__(**given)

    return Layers
