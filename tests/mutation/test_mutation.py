"""The mutants that are written into a source, and the list of survivors."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutation import scratch, survivors
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


def test_every_source_in_scope_is_read() -> None:
    pytest.importorskip("tree_sitter", reason="needs requirements/mutants.txt")
    rewriter = Rewriter()
    for path in scratch.sources():
        rewriter.rewrite(path.name, path.read_bytes())
    assert rewriter.mutants


def test_each_scope_has_sources_and_no_source_of_tests_is_among_them() -> None:
    files = [path.relative_to(scratch.ROOT / scratch.SOURCES).as_posix() for path in scratch.sources()]
    assert all(any(file.startswith(scope) for file in files) for scope in scratch.SCOPE)
    assert "instance/batch/decode_set/mod.rs" in files
    assert "instance/batch/decode_set_tests.rs" not in files
    assert "kv/tree/nodes/tests.rs" not in files


def test_a_mutant_is_listed_once(tmp_path: Path) -> None:
    file = tmp_path / "survivors.toml"
    file.write_text('[[group]]\nreason = "equal"\nmutants = ["a", "b"]\n')
    assert survivors.read(file).listed == {"a": "equal", "b": "equal"}
    file.write_text(file.read_text() + '[[group]]\nreason = "other"\nmutants = ["b"]\n')
    with pytest.raises(ValueError, match="each mutant once, and lists 'b' again"):
        survivors.read(file)


@pytest.mark.parametrize(
    ("slower", "faster", "differ", "explained"),
    [(3, 0, [], True), (0, 0, [], False), (3, 1, [], False), (3, 0, ["case 7"], False)],
)
def test_a_mutant_that_only_shortens_runs_needs_no_explanation(
    slower: int, faster: int, differ: list[str], explained: bool
) -> None:
    found = {"reached": True, "slower": slower, "faster": faster, "differ": differ}
    known = survivors.Survivors({}, {"run/planned.rs Instance::plan": "shorter"})
    name = "run/planned.rs Instance::plan: > to >= in all > rules.max_num_seqs"
    assert (known.reason(name, found) == "shorter") == explained
    assert known.reason("run/planned.rs Instance::other: !a without !", found) is None


def test_the_list_of_survivors_can_be_read() -> None:
    assert all(survivors.read().listed.values())
