"""The studies by name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from paceline._toml import close_matches
from paceline.errors import ConfigError
from paceline.study.work import Work

if TYPE_CHECKING:
    from paceline.study.model import Study

__all__ = ["check_study", "run_study", "studies"]

# Each package has run(work: Work) -> Study, and is imported when the study is run.
_STUDIES: Final = {
    "arrow": (
        "paceline.study.arrow",
        "Instances that change between prefill and decode, against colocation and static pools (Wu et al.).",
    ),
    "fairness": (
        "paceline.study.fairness",
        "Fair shares of one instance: FCFS, round robin, least service, VTC and DLPM side by side.",
    ),
    "kv-reuse": (
        "paceline.study.kv_reuse",
        "Eviction of cached prefixes by their probability of reuse, against LRU (Wang et al.).",
    ),
    "layered-prefill": (
        "paceline.study.layered_prefill",
        "Layered prefill against chunked prefill on mixtures of experts (Lee et al.).",
    ),
    "llumnix": (
        "paceline.study.llumnix",
        "Live migration between sixteen instances against dispatch alone (Sun et al.).",
    ),
    "pars": (
        "paceline.study.pars",
        "Scheduling by learned rank of answer length against FCFS and other rankers (Tao et al.).",
    ),
    "pascal": (
        "paceline.study.pascal",
        "Phase-aware scheduling against FCFS and round robin (Cho et al.).",
    ),
    "sarathi": (
        "paceline.study.sarathi",
        "The capacity of Sarathi-Serve under bounds on the time between tokens, against vLLM and Orca.",
    ),
    "splitwise": (
        "paceline.study.splitwise",
        "Pools of machines for prompts and for tokens against machines that run both (Patel et al.).",
    ),
    "vllm-proposals": (
        "paceline.study.vllm_proposals",
        "Orders proposed for vLLM's waiting queue on real traces, with intervals.",
    ),
}


def studies() -> dict[str, str]:
    """Return the names of the studies, each with its subject.

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
        How to run it; by default in full, without reports of progress.

    Returns
    -------
    Study
        Its pages. The same work gives the same pages.

    Raises
    ------
    ConfigError
        If no study has that name.
    """
    check_study(name)
    study: Study = import_module(_STUDIES[name][0]).run(work or Work())
    return study


def check_study(name: str) -> None:
    """Refuse a name that no study has.

    Raises
    ------
    ConfigError
        With the names that are close to it.
    """
    if name not in _STUDIES:
        raise ConfigError(f"there is no study {name!r}{close_matches(name, _STUDIES)}")
