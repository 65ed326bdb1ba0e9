"""The reference simulator against the decision logs of real schedulers: every step, every stamp."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.testing.reference import read_decision_log, replay

LOGS = Path(__file__).parent / "logs"
KINDS = ("vllm", "vllm-v0", "layered")
FILES = sorted(file for kind in KINDS for file in (LOGS / kind).glob("*.json.gz"))


def test_every_generation_has_its_logs() -> None:
    found = {folder: sum(file.parent.name == folder for file in FILES) for folder in KINDS}
    assert found == {"vllm": 11, "vllm-v0": 8, "layered": 8}


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name.split('.')[0]}")
def test_reference_decides_what_the_real_scheduler_decided(file: Path) -> None:
    recorded = read_decision_log(file)
    replayed = replay(recorded.requests, recorded.config, recorded.cost)
    assert len(replayed["steps"]) == len(recorded.log["steps"])
    for number, (ours, theirs) in enumerate(zip(replayed["steps"], recorded.log["steps"], strict=True)):
        assert ours == theirs, f"step {number}"
    assert replayed["first_token_ns"] == recorded.log["first_token_ns"]
    assert replayed["finish_ns"] == recorded.log["finish_ns"]
