"""A saved result is whole or absent, and is read back equal or refused with a reason."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import polars as pl
import pytest

from paceline.errors import ResultError
from paceline.objectives import SLO
from paceline.result import Result, load_result, loading
from paceline.result import save as saving
from paceline.result.manifest import read_manifest, write_manifest
from unit.result.fakes import (
    REJECTED,
    RUNNING,
    WAITING,
    ListSketch,
    Request,
    instance_stats,
    result_of,
    served,
    ticks,
)

REQUESTS = [
    served(0.1, 0.2, 1, 3, output=3, prompt=100),
    served(0.7, 1.3, 2, 4, output=5, prompt=200, cached=128, preemptions=2),
    Request(arrival=0.9, scheduled=1, first_token=3, output=90, generated=7, instance=0, status=RUNNING),
    Request(arrival=1, status=WAITING),
    Request(arrival=2, status=REJECTED, reason=3),
]


@pytest.fixture(autouse=True)
def _exact_sketch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "read_sketch", lambda text, _: ListSketch.from_json(text))


@pytest.fixture
def result() -> Result:
    # An integral of more than 64 bits goes through the file too.
    memory = {"prefix_queries": 300, "prefix_hits": 128, "evictions": 4, "swapped_out_blocks": 9}
    busy = instance_stats(busy_ticks=ticks(9), running_ticks=10**25, peak_blocks=3, **memory)
    return result_of(REQUESTS, gaps=[0.5, 0.5, 1.0], instances=[busy, instance_stats()])


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_loaded_result_answers_as_the_saved_one_did(result: Result, tmp_path: Path) -> None:
    directory = result.save(tmp_path / "run")
    loaded = load_result(directory)
    assert loaded == result
    assert loaded.requests.equals(result.requests)
    assert loaded.requests.schema == result.requests.schema
    assert loaded.summary().equals(result.summary())
    assert loaded.instances.equals(result.instances)
    assert loaded.totals() == result.totals()
    assert loaded.provenance == result.provenance
    assert loaded.goodput(SLO(ttft=1.0)) == result.goodput(SLO(ttft=1.0)) > 0
    assert repr(loaded) == repr(result)


def test_results_of_different_replays_differ(result: Result) -> None:
    assert result != result_of(REQUESTS, gaps=[0.5, 0.5, 1.0])
    assert result != "a result"


def test_the_files_are_open_to_other_tools(result: Result, tmp_path: Path) -> None:
    directory = result.save(tmp_path / "run")
    assert sorted(files_of(directory)) == [
        "instances.parquet",
        "itl.json",
        "links.parquet",
        "manifest.json",
        "requests.parquet",
        "summary.parquet",
    ]
    assert pl.read_parquet(directory / "requests.parquet").equals(result.requests)
    assert pl.read_parquet(directory / "instances.parquet").equals(result.instances)
    assert pl.read_parquet(directory / "links.parquet").equals(result.links)
    manifest = json.loads((directory / "manifest.json").read_text())
    assert manifest["provenance"]["trace"] == "by-hand"
    assert manifest["provenance"]["cluster"].startswith("[[instance]]")
    assert manifest["provenance"]["policy"] == "FakePolicy(name='vllm')"
    assert manifest["provenance"]["uses_oracle"] is False
    assert manifest["stats"]["instances"][0]["prefix_hits"] == 128
    assert manifest["provenance"]["settings"] == {"leap": True, "until": None}


def test_the_same_result_saves_the_same_bytes(result: Result, tmp_path: Path) -> None:
    assert files_of(result.save(tmp_path / "a")) == files_of(result.save(tmp_path / "b"))


def test_saving_a_loaded_result_changes_nothing(result: Result, tmp_path: Path) -> None:
    first = result.save(tmp_path / "a")
    assert files_of(load_result(first).save(tmp_path / "b")) == files_of(first)


def test_a_saved_result_is_replaced(result: Result, tmp_path: Path) -> None:
    result_of(REQUESTS[:1]).save(tmp_path / "run")
    result.save(tmp_path / "run")
    assert load_result(tmp_path / "run") == result
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_an_empty_directory_and_missing_parents_will_do(result: Result, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert load_result(result.save(tmp_path / "empty")) == result
    assert load_result(result.save(tmp_path / "some" / "where")) == result


def test_other_files_are_not_overwritten_unless_asked(result: Result, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "thesis.tex").write_text("years of work")
    with pytest.raises(ResultError, match=r"notes: must be empty or hold a saved result, held other files"):
        result.save(tmp_path / "notes")
    assert (tmp_path / "notes" / "thesis.tex").read_text() == "years of work"
    result.save(tmp_path / "notes", overwrite=True)
    assert load_result(tmp_path / "notes") == result


def test_a_saved_result_with_files_added_to_it_is_not_overwritten(result: Result, tmp_path: Path) -> None:
    directory = result.save(tmp_path / "run")
    (directory / "figure.pdf").write_bytes(b"%PDF")
    with pytest.raises(ResultError, match="held other files"):
        result.save(directory)


def test_a_file_is_not_a_directory(result: Result, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(ResultError, match="must be a directory, was a file"):
        result.save(tmp_path / "run", overwrite=True)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("before", ["nothing", "an older result"])
def test_an_interrupted_save_leaves_what_was_there(
    before: str, error: type[BaseException], result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = result_of(REQUESTS[:1])
    if before == "an older result":
        older.save(tmp_path / "run")

    def stop(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(saving, "write_manifest", stop)
        with pytest.raises(error):
            result.save(tmp_path / "run")
    left = [path.name for path in tmp_path.iterdir()]
    if before == "nothing":
        assert left == []
    else:
        assert left == ["run"]
        assert load_result(tmp_path / "run") == older


def test_a_replacement_that_fails_at_the_last_moment_puts_the_old_one_back(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = result_of(REQUESTS[:1])
    older.save(tmp_path / "run")
    rename = Path.rename

    def fail(self: Path, target: Path) -> Path:
        if self.suffix == ".partial":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fail)
        with pytest.raises(ResultError, match="could not be written: No space left on device"):
            result.save(tmp_path / "run")
    assert load_result(tmp_path / "run") == older
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("name", ["requests.parquet", "instances.parquet", "links.parquet", "itl.json"])
def test_a_changed_file_is_noticed(name: str, result: Result, tmp_path: Path) -> None:
    path = result.save(tmp_path / "run") / name
    text = bytearray(path.read_bytes())
    text[len(text) // 2] ^= 1
    path.write_bytes(text)
    with pytest.raises(ResultError, match=rf"{name}: SHA-256 does not match the manifest"):
        load_result(tmp_path / "run")
    path.write_bytes(text[:-1])
    with pytest.raises(ResultError, match=rf"{name}: must have {len(text)} bytes, had {len(text) - 1}"):
        load_result(tmp_path / "run")
    path.unlink()
    with pytest.raises(ResultError, match=rf"{name}: missing"):
        load_result(tmp_path / "run")


def test_a_changed_manifest_is_noticed(result: Result, tmp_path: Path) -> None:
    path = result.save(tmp_path / "run") / "manifest.json"
    path.write_text(path.read_text().replace('"steps": 7', '"steps": 8'))
    with pytest.raises(ResultError, match=r"manifest\.json: checksum does not match"):
        load_result(tmp_path / "run")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not readable as JSON"),
        ("[]", r"format must be 'paceline-result', was \[\]"),
        ('{"format": "other"}', "was 'other'"),
        (
            '{"format": "paceline-result", "format_version": 99, "provenance": {"version": "7.1"}}',
            r"format_version must be 1, was 99; it was written by Paceline 7\.1",
        ),
    ],
)
def test_another_kind_of_manifest_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ResultError, match=message):
        load_result(tmp_path)


def test_a_manifest_that_lacks_something_is_refused(result: Result, tmp_path: Path) -> None:
    directory = result.save(tmp_path / "run")
    body = read_manifest(directory)
    del body["stats"]["steps"]
    write_manifest(directory, body)
    with pytest.raises(ResultError, match=r"manifest\.json: incomplete: .* field `steps`"):
        load_result(directory)


def test_what_is_no_result_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=r"no manifest\.json in it"):
        load_result(tmp_path)
    with pytest.raises(ResultError, match="not a directory"):
        load_result(tmp_path / "absent")


@pytest.mark.parametrize(
    ("change", "most"),
    [({"finished": -(2**63) - 1}, 64), ({"peak_running": 2**32}, 32), ({"running_ticks": 2**128}, 128)],
)
def test_counters_that_no_engine_counts_are_refused(change: dict[str, int], most: int) -> None:
    stats = result_of([served(0.0, 0.0, 1.0, 2.0, output=2)]).stats.instances[0]
    (name,) = change
    message = rf"{name} of the counters of an instance must be 0 to 2\*\*{most} - 1, was "
    with pytest.raises(ResultError, match=message):
        dataclasses.replace(stats, **change)
