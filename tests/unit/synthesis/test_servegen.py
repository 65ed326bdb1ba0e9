"""ServeGen's description of a workload: a small one made here, and the real one where it is at hand."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
import zstandard

from paceline.errors import ConfigError, TraceError
from paceline.synthesis import read_servegen

SILENT = {"input_tokens": "{}", "output_tokens": "{}", "reason_ratio": "{}"}
SPEAKING = {
    "input_tokens": "{7: 1.0}",
    "output_tokens": "{100: 0.75, 200: 0.25, 300: 0.0}",
    "reason_ratio": "{0.25: 1.0}",
}


def _files(**changed: str) -> dict[str, str]:
    steady = "0,0.5,1.0,Gamma,1.0,2.0\n600,0,0,,0,0\n1200,2.0,3.0,Weibull,0.5,0.2\n"
    return {
        "chunk-0-trace.csv": steady,
        "chunk-0-dataset.json": json.dumps({"0": SPEAKING}),
        "chunk-12-trace.csv": "0,0,0,,0,0\n600,1.0,0.5,Gamma,4.0,0.25\n1200,0,0,,0,0\n",
        "chunk-12-dataset.json": json.dumps({"0": SILENT, "600": SPEAKING}),
        "LICENSE": "free",
        **changed,
    }


def _folder(path: Path, files: dict[str, str]) -> Path:
    path.mkdir()
    for name, text in files.items():
        (path / name).write_text(text, encoding="utf-8")
    return path


def test_a_folder_and_its_compressed_tar_file_describe_the_same(tmp_path: Path) -> None:
    files = _files()
    folder = _folder(tmp_path / "r1", files)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"data/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    (tmp_path / "r1.tar.zst").write_bytes(zstandard.ZstdCompressor().compress(packed.getvalue()))
    drawn = [
        read_servegen(path).trace(start_s=0, span_s=1800, seed=3)
        for path in (folder, tmp_path / "r1.tar.zst")
    ]
    assert drawn[0] == drawn[1]


def test_clients_send_at_their_rates_and_only_in_their_windows(tmp_path: Path) -> None:
    workload = read_servegen(_folder(tmp_path / "r1", _files()))
    assert (workload.span_s, workload.rate_at(0), workload.rate_at(600), workload.rate_at(1200)) == (
        *(1800, 0.5, 1.0),
        2.0,
    )
    frames = [workload.trace(start_s=0, span_s=1800, seed=seed).frame for seed in range(20)]
    for window, tenant, rate in ((0, "client-0", 0.5), (600, "client-12", 1.0), (1200, "client-0", 2.0)):
        counts = []
        for frame in frames:
            inside = frame.filter((frame["arrival"] >= window) & (frame["arrival"] < window + 600))
            assert inside["tenant"].unique().to_list() == [tenant]
            counts.append(len(inside))
        # Weibull's gaps of shape 1/2 have a coefficient of variation of 5 ** 0.5: a count of 1,200 has a
        # standard deviation of (5 * 1,200) ** 0.5 or so, the mean of 20 one of 1.4%, four of them 6%.
        assert sum(counts) / 20 == pytest.approx(600 * rate, rel=0.06)


def test_a_quarter_of_the_output_is_reasoning_where_the_ratio_says_so(tmp_path: Path) -> None:
    frame = read_servegen(_folder(tmp_path / "r1", _files())).trace(start_s=0, span_s=1800, seed=1).frame
    assert set(frame["output_tokens"].to_list()) == {100, 200}
    assert (frame["reasoning_tokens"] * 4 == frame["output_tokens"]).all()
    assert frame["prompt_tokens"].unique().to_list() == [7]


def test_a_window_is_the_same_whatever_others_are_drawn(tmp_path: Path) -> None:
    workload = read_servegen(_folder(tmp_path / "r1", _files()))
    whole = workload.trace(start_s=0, span_s=1800, seed=5).window(1200, 1800).frame
    alone = workload.trace(start_s=1200, span_s=600, seed=5).frame
    assert whole.drop("arrival").equals(alone.drop("arrival"))
    assert whole["arrival"].to_list() == pytest.approx(alone["arrival"].to_list(), abs=1e-9)
    assert not alone.equals(workload.trace(start_s=1200, span_s=600, seed=6).frame)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"chunk-0-trace.csv": "0,0.5\n"}, r"chunk-0-trace\.csv, line 1: .* was '0,0\.5'"),
        ({"chunk-0-trace.csv": "0,1,1,Pareto,1,1\n"}, r"line 1: .*Gamma or Weibull.* was '0,1,1,Pareto,1,1'"),
        ({"chunk-0-trace.csv": "0,-1,1,Gamma,1,1\n"}, r"line 1: .*rate of at least 0"),
        ({"chunk-0-dataset.json": "{}x"}, r"chunk-0-dataset\.json: must be an object"),
        (
            {"chunk-0-dataset.json": json.dumps({"0": {**SPEAKING, "reason_ratio": "{0.5}"}})},
            r"chunk-0-dataset\.json: .*finite and at least 0",
        ),
    ],
)
def test_a_damaged_file_is_refused_by_its_name(tmp_path: Path, changed: dict[str, str], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read_servegen(_folder(tmp_path / "r1", _files(**changed)))


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    files = _files()
    del files["chunk-12-dataset.json"]
    with pytest.raises(TraceError, match=r"missing chunk-12-dataset\.json"):
        read_servegen(_folder(tmp_path / "r1", files))
    with pytest.raises(TraceError, match="held none"):
        read_servegen(_folder(tmp_path / "none", {"LICENSE": ""}))
    (tmp_path / "text").write_text("no tar file")
    with pytest.raises(TraceError, match="must be a folder or a tar file"):
        read_servegen(tmp_path / "text")


def test_a_client_that_sends_without_lengths_is_named(tmp_path: Path) -> None:
    files = _files(**{"chunk-0-dataset.json": json.dumps({"0": SILENT})})
    workload = read_servegen(_folder(tmp_path / "r1", files))
    with pytest.raises(TraceError, match=r"client 0 sends 0\.5 requests/s from 0 s, but its input_tokens is"):
        workload.trace(start_s=0, span_s=600, seed=1)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"start_s": 5, "span_s": 600, "seed": 1}, "start_s must be a multiple of 600 of at least 0, was 5"),
        ({"start_s": 0, "span_s": 0, "seed": 1}, "span_s must be a multiple of 600 of at least 600, was 0"),
        ({"start_s": 1200, "span_s": 1200, "seed": 1}, "must be at most 1800, was 2400"),
        ({"start_s": 0, "span_s": 600, "seed": -1}, "seed must be a whole number of at least 0, was -1"),
    ],
)
def test_a_part_that_is_not_described_is_refused(tmp_path: Path, asked: dict[str, int], message: str) -> None:
    workload = read_servegen(_folder(tmp_path / "r1", _files()))
    with pytest.raises(ConfigError, match=message):
        workload.trace(**asked)


def test_a_window_without_requests_is_no_trace(tmp_path: Path) -> None:
    files = _files(**{"chunk-12-trace.csv": "0,0,0,,0,0\n"})
    with pytest.raises(TraceError, match=r"no client sends anything in \[600, 1200\) s"):
        read_servegen(_folder(tmp_path / "r1", files)).trace(start_s=600, span_s=600, seed=1)


def test_the_published_day_of_deepseek_r1_is_read_whole(shared: Path) -> None:
    workload = read_servegen(shared / "traces" / "servegen_deepseek-r1.tar.zst")
    assert (len(workload.clients), workload.span_s) == (73, 86_400)
    rates = [workload.rate_at(start) for start in range(0, 86_400, 600)]
    # As the folder's README has them.
    assert (round(min(rates), 1), round(max(rates), 1)) == (4.3, 42.5)
    busiest = 600 * rates.index(max(rates))
    trace = workload.trace(start_s=busiest, span_s=600, seed=1)
    # Bursty clients make the count of one window vary by several per cent.
    assert len(trace) == pytest.approx(600 * max(rates), rel=0.10)
