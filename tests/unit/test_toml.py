"""Text that Python's reader of TOML gives up on is an error of ours."""

from __future__ import annotations

import pytest

from paceline import Cluster
from paceline.errors import ConfigError, PolicyError
from paceline.hardware import Gpu
from paceline.model import Model
from paceline.policy import Policy


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = " + "[" * 100_000, "was nested too deeply"),
        ("a = " + "{a=" * 100_000, "was nested too deeply"),
        ("a = " + "9" * 5_000, "had a whole number of too many digits"),
        ("a = ", "must be TOML: Invalid value"),
        ("a = 1\na = 2", "must be TOML: Cannot overwrite a value"),
    ],
)
@pytest.mark.parametrize("kind", [Policy, Cluster, Model, Gpu], ids=lambda kind: kind.__name__)
def test_a_text_that_is_no_toml_is_refused(
    kind: type[Policy | Cluster | Model | Gpu], text: str, message: str
) -> None:
    with pytest.raises((ConfigError, PolicyError), match=message):
        kind.from_toml(text)
