"""Drafts become whole files or directories; a killed writer's is removed, a living one's never."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from paceline._atomic import leftovers, new_directory, new_file, remove_leftovers

WRITER = """
import sys, threading
from pathlib import Path
from paceline._atomic import new_directory, new_file

kind, target = sys.argv[1:]
with (new_directory if kind == "directory" else new_file)(Path(target)) as draft:
    ((draft / "a") if kind == "directory" else draft).write_bytes(b"half")
    print(draft, flush=True)
    threading.Event().wait()
"""


@contextmanager
def writer(kind: str, target: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Start a process that writes to `target` and does not end."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, kind, str(target)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process:
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def write(kind: str, target: Path) -> None:
    if kind == "directory":
        with new_directory(target) as draft:
            (draft / "a").write_bytes(b"whole")
    else:
        with new_file(target) as draft:
            draft.write_bytes(b"whole")


@pytest.mark.parametrize("kind", ["directory", "file"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_next_write_removes_what_a_killed_one_left(tmp_path: Path, kind: str, number: int) -> None:
    target = tmp_path / "out"
    with writer(kind, target) as (process, draft):
        process.send_signal(number)
        process.wait()
    assert draft.exists()
    assert leftovers(tmp_path) == (draft,)
    write(kind, target)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("kind", ["directory", "file"])
def test_a_draft_whose_writer_lives_is_never_removed(tmp_path: Path, kind: str) -> None:
    with writer(kind, tmp_path / "out") as (_, draft):
        assert leftovers(tmp_path) == ()
        assert remove_leftovers(tmp_path) == ()
        write(kind, tmp_path / "out")
        assert draft.exists()
    assert remove_leftovers(tmp_path) == (draft,)


def test_only_drafts_of_the_same_target_are_removed_by_a_write(tmp_path: Path) -> None:
    others = [".in.0123456789ab.partial", ".out.partial", ".out.0123456789ab.txt", "out.0123456789ab.partial"]
    for name in others:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / ".out.0123456789ab.partial").write_bytes(b"")
    write("file", tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {*others, "out"}


def test_what_was_moved_away_by_a_writer_killed_between_its_renames_is_put_back(tmp_path: Path) -> None:
    old, draft = tmp_path / ".out.0123456789ab.replaced", tmp_path / ".out.0123456789ab.partial"
    for folder in (old, draft):
        folder.mkdir()
        (folder / "a").write_text(folder.suffix)
    assert set(remove_leftovers(tmp_path, "out")) == {old, draft}
    assert (tmp_path / "out" / "a").read_text() == ".replaced"


def test_what_was_replaced_is_removed_where_the_new_one_stands(tmp_path: Path) -> None:
    for name in (".out.0123456789ab.replaced", "out"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)
    remove_leftovers(tmp_path, "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out" / "a").read_text() == "out"


def test_a_link_that_looks_like_a_draft_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a").write_text("a")
    link = tmp_path / ".out.0123456789ab.partial"
    link.symlink_to(tmp_path / "mine")
    assert remove_leftovers(tmp_path) == ()
    assert (tmp_path / "mine" / "a").exists()


@pytest.mark.parametrize("kind", ["directory", "file"])
def test_an_error_leaves_the_target_as_it_was(tmp_path: Path, kind: str) -> None:
    write(kind, tmp_path / "out")
    begin = new_directory if kind == "directory" else new_file

    def fail() -> None:
        with begin(tmp_path / "out") as draft:
            ((draft / "a") if kind == "directory" else draft).write_bytes(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert ((tmp_path / "out" / "a") if kind == "directory" else tmp_path / "out").read_bytes() == b"whole"


def test_a_new_file_keeps_rights_and_follows_links(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    write("file", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"whole"
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o640


def test_a_device_is_written_to_and_not_replaced() -> None:
    with new_file(Path(os.devnull)) as draft:
        assert draft == Path(os.devnull)


def test_many_writers_of_one_place_leave_one_whole_directory(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom paceline._atomic import new_file\n"
        "for turn in range(30):\n"
        "    with new_file(Path(sys.argv[1])) as draft:\n"
        "        draft.write_bytes(sys.argv[2].encode() * 100_000)\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "out")]
    writers = [subprocess.Popen([*words, name], stderr=subprocess.PIPE) for name in "abcd"]
    assert [process.communicate()[1] for process in writers] == 4 * [b""]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    content = (tmp_path / "out").read_bytes()
    assert len(content) == 100_000
    assert len(set(content)) == 1
