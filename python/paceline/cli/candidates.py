"""Names that a shell offers for the value of an option, looked up when it asks."""

from __future__ import annotations

from typing import Any

__all__ = ["gpu_names", "model_names", "policy_names"]


def model_names(_: Any) -> list[str]:  # noqa: ANN401 - cyclopts' context
    """Return the models that ship."""
    from paceline import catalog

    return [*catalog.names("model")]


def gpu_names(_: Any) -> list[str]:  # noqa: ANN401
    """Return the GPUs that ship."""
    from paceline import catalog

    return [*catalog.names("gpu")]


def policy_names(_: Any) -> list[str]:  # noqa: ANN401
    """Return the policies that ship."""
    from paceline.cli.policy_choice import word
    from paceline.policies.by_name import names

    return [word(name) for name in names()]
