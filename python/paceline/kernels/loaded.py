"""Whether a cost is a table of measured kernels, without importing tables for one that is not."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from paceline.kernels.table import Table

__all__ = ["is_table"]


def is_table(cost: object) -> TypeIs[Table]:
    """Return whether a cost is a `Table`.

    Before its module is loaded there is no object of the class.
    """
    module = sys.modules.get("paceline.kernels.table")
    return module is not None and isinstance(cost, module.Table)
