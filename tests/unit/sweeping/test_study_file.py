"""Grids as TOML files."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline import SLO, Cluster, ConfigError, Grid, Instance, policies, read_grid
from paceline.runs import Recipe, Settings

H100 = Cluster([Instance(model="llama-3.1-8b", gpu="h100-sxm")])
HEAD = '[trace]\npreset = "azure-conv"\nrequests = 5\n'
BODY = '[[cluster.instances]]\nmodel = "llama-3.1-8b"\ngpu = "h100-sxm"\n'


def test_a_file_says_a_grid(tmp_path: Path) -> None:
    (tmp_path / "h100.toml").write_text(H100.to_toml())
    (tmp_path / "study.toml").write_text(
        """
        warmup_s = 5
        cluster = "h100.toml"
        [slo]
        ttft = 0.5
        [trace]
        preset = "azure-conv"
        requests = 5
        [settings]
        until = 9.0
        [over]
        rate = [2.0, 4.0]
        "policy.scheduler.max_num_seqs" = [64, 128]
        [over.policy.plain]
        preset = "vllm"
        settings = { long_prefill_token_threshold = 512 }
        [over.policy.chunked]
        preset = "sarathi"
        """
    )
    grid = read_grid(tmp_path / "study.toml")
    expected = Grid(
        trace=Recipe(preset="azure-conv", requests=5),
        cluster=H100,
        settings=Settings(until=9.0),
        over={
            "rate": [2.0, 4.0],
            "policy.scheduler.max_num_seqs": [64, 128],
            "policy": {
                "plain": {"preset": "vllm", "settings": {"long_prefill_token_threshold": 512}},
                "chunked": "sarathi",
            },
        },
        slo=SLO(ttft=0.5),
        warmup_s=5,
    )
    assert grid.axes == expected.axes
    assert [point.labels for point in grid.points()] == [point.labels for point in expected.points()]
    assert [point.identity("x") for point in grid.points()] == [
        point.identity("x") for point in expected.points()
    ]
    assert grid.points()[2].labels == {
        "rate": 2.0,
        "policy.scheduler.max_num_seqs": 128,
        "policy": "plain",
    }
    assert grid.points()[2].parts() == (
        H100,
        policies.vllm(long_prefill_token_threshold=512, max_num_seqs=128),
        Settings(until=9.0),
    )


def test_an_axis_of_clusters_needs_no_cluster_beside_it(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(H100.to_toml())
    (tmp_path / "study.toml").write_text(HEAD + '[over]\ncluster = ["a.toml"]\n')
    grid = read_grid(tmp_path / "study.toml")
    assert grid.axes == {"cluster": ["a.toml"]}
    assert grid.points()[0].parts()[0] == H100


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD, r"lacks the table \[cluster\]"),
        (HEAD + BODY + "[ovre]\n", "no table 'ovre'; close to it: over"),
        ("over = 3\n" + HEAD + BODY, "must be a table of axes, was 3"),
        (
            HEAD + BODY + "[over]\npolicy.scheduler.max_num_seqs = [1]\n",
            'in quotation marks: "policy.scheduler.max_num_seqs"',
        ),
        (HEAD + BODY + "[slo]\nttfft = 3\n", "close to it: ttft"),
        ("x = [", "must be TOML"),
    ],
)
def test_files_that_say_no_grid_are_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_grid(tmp_path / "study.toml")
