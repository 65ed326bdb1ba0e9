"""A warning if the native module is a debug build."""

from __future__ import annotations

import warnings

from paceline import _core

__all__ = ["warn_of_debug_build"]


def warn_of_debug_build(profile: str = _core.BUILD_PROFILE) -> None:
    """Warn if the native module was built without optimisation.

    Parameters
    ----------
    profile
        ``release`` or ``debug``; this build's.

    Warns
    -----
    RuntimeWarning
        If it is a debug build.
    """
    if profile == "debug":
        warnings.warn(
            "paceline's native module is a debug build, tens of times slower than a release build; "
            "make one with `make dev`, or `maturin develop --release`",
            RuntimeWarning,
            stacklevel=2,
        )
