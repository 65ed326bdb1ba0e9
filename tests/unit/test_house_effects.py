"""An instance is small where it is shared, and is written by its effects alone."""

from __future__ import annotations

import re
from pathlib import Path

MOST_METHODS = 80
INSTANCE = "rust/core/src/instance"

_IMPL = re.compile(r"^impl Instance \{\n(.*?)^\}", re.DOTALL | re.MULTILINE)
_METHOD = re.compile(r"^    (?:pub(?:\([^)]*\))? )?(?:const )?fn \w+", re.MULTILINE)


def methods(root: Path) -> int:
    texts = (path.read_text(encoding="utf-8") for path in sorted((root / INSTANCE).rglob("*.rs")))
    return sum(len(_METHOD.findall(block)) for text in texts for block in _IMPL.findall(text))


def test_an_instance_has_few_methods(root: Path) -> None:
    assert 20 < methods(root) < MOST_METHODS


def test_stages_and_views_have_no_mutable_instance(root: Path) -> None:
    for folder in ("scheduler", "view", "ranks", "run"):
        for path in sorted((root / INSTANCE / folder).rglob("*.rs")):
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"&mut Instance\b|mut \*self\.on\b", text), path
    # The compiler keeps the rest of the rule as long as this field is private.
    effects = (root / INSTANCE / "effects/mod.rs").read_text(encoding="utf-8")
    assert re.search(r"^    on: &'a mut Instance,$", effects, re.MULTILINE)
    assert "impl DerefMut for" not in effects
