"""The studies by name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from paceline._toml import close_matches
from paceline.errors import ConfigError
from paceline.study.work import Work

if TYPE_CHECKING:
    from paceline.study.model import Study

__all__ = ["run_study", "studies"]

# Each module has run(work: Work) -> Study; it is imported when it is asked for.
_STUDIES: Final = {
    "layered-prefill": (
        "paceline.study.layered_prefill",
        "Layered prefill against chunked prefill on mixtures of experts (Lee et al.).",
    ),
    "pascal": (
        "paceline.study.pascal",
        "Phase-aware scheduling against FCFS and round robin (Cho et al.).",
    ),
}


def studies() -> dict[str, str]:
    """Return the names of the studies there are, each with what it is about.

    Examples
    --------
    >>> "layered-prefill" in studies()
    True
    """
    return {name: about for name, (_, about) in _STUDIES.items()}


def run_study(name: str, work: Work | None = None) -> Study:
    """Run a study.

    Parameters
    ----------
    name
        One of :func:`studies`.
    work
        How, and who is told how far it has come; by default in full, and nobody.

    Returns
    -------
    Study
        Its pages. The same work gives the same pages.

    Raises
    ------
    ConfigError
        If there is none of that name.
    """
    if name not in _STUDIES:
        raise ConfigError(f"there is no study {name!r}{close_matches(name, _STUDIES)}")
    study: Study = import_module(_STUDIES[name][0]).run(work or Work())
    return study
