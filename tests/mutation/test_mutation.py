"""The mutants that are written into a source, and the list of survivors."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutation import survivors
from mutation.rewriting import Rewriter

SOURCE = b"""
const LEAST: u64 = 1 + 2;
impl<T> Pool<T> {
    fn take(&mut self, count: u64) -> bool {
        debug_assert!(count > 0);
        if count <= self.free && self.open { self.free -= count; return true; }
        false
    }
}
#[cfg(test)]
mod tests {
    fn helper() -> bool { 1 < 2 }
}
"""


def rewritten(*refused: str) -> tuple[list[str], str]:
    pytest.importorskip("tree_sitter", reason="needs requirements/mutants.txt")
    rewriter = Rewriter(refused=set(refused))
    text = rewriter.rewrite("pool.rs", SOURCE)
    return [mutant.name for mutant in rewriter.mutants], text


def test_a_mutant_is_an_operator_or_a_body_outside_constants_macros_and_tests() -> None:
    names, _ = rewritten()
    assert names == [
        "pool.rs Pool::take: return true at once",
        "pool.rs Pool::take: return false at once",
        "pool.rs Pool::take: && to || in count <= self.free && self.open",
        "pool.rs Pool::take: <= to < in count <= self.free",
        "pool.rs Pool::take: <= to > in count <= self.free",
        "pool.rs Pool::take: -= to += in self.free -= count",
        "pool.rs Pool::take: -= to *= in self.free -= count",
    ]


def test_each_mutant_is_asked_for_once_and_the_rest_stays() -> None:
    names, text = rewritten()
    for number in range(1, len(names) + 1):
        assert text.count(f"mutant::is({number})") == 1
    for kept in ("const LEAST: u64 = 1 + 2;", "debug_assert!(count > 0);", "fn helper() -> bool { 1 < 2 }"):
        assert kept in text


def test_an_expression_with_a_refused_mutant_stays_as_it_is() -> None:
    names, text = rewritten("pool.rs Pool::take: -= to *= in self.free -= count")
    assert not any("-=" in name for name in names)
    assert "self.free -= count;" in text


def test_a_mutant_is_listed_once(tmp_path: Path) -> None:
    file = tmp_path / "survivors.toml"
    file.write_text('[[group]]\nreason = "speed"\nmutants = ["a", "b"]\n')
    assert survivors.explained(file) == {"a": "speed", "b": "speed"}
    file.write_text(file.read_text() + '[[group]]\nreason = "other"\nmutants = ["b"]\n')
    with pytest.raises(ValueError, match="each mutant once, and lists 'b' again"):
        survivors.explained(file)


def test_the_list_of_survivors_can_be_read() -> None:
    assert all(survivors.explained().values())
