"""Profiles of a fake device, and tiny ones of this machine if PyTorch is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from paceline import Instance
from paceline.errors import ConfigError
from paceline.kernels import Table, read_parquet, write_parquet
from paceline.model import Experts, Model
from paceline.profiling import Axes, plan, profile_model
from paceline.profiling.work import Attention, Product, Work
from paceline.profiling.work import Experts as ExpertsWork

DENSE = replace(
    Model.load("qwen3-8b"), layers=2, hidden_size=64, heads=4, kv_heads=2, head_dim=16,
    intermediate_size=96, vocab_size=128,
)  # fmt: skip
MIXTURE = replace(DENSE, experts=Experts(count=8, per_token=2, intermediate_size=32))
AXES = Axes(tokens=32, requests=4, context=64)


@dataclass
class Device:
    """Takes a nanosecond a number, with repetitions around that, and remembers what it was asked."""

    memory_bytes: int = 2**40
    asked: list[Work] = field(default_factory=list)

    def facts(self) -> Mapping[str, str]:
        return {"gpu": "toy", "driver": "1.2"}

    def measure(self, work: Work, *, dtype: str, warmup: int, repeat: int) -> Sequence[float]:
        self.asked.append(work)
        assert (dtype, warmup) == ("bfloat16", 1)
        return [1e-9 * work.numbers * share for share in (0.5, 0.9, 1.0, 1.1, 3.0)][:repeat]


def test_a_profile_is_the_medians_of_the_plan(tmp_path: Path) -> None:
    device = Device()
    now = datetime(2026, 11, 21, tzinfo=UTC)
    measured = profile_model(DENSE, device, axes=AXES, warmup=1, repeat=5, now=now)
    profile = measured.profile
    # Rows of 64 numbers times 64 x (64 + 2 * 32).
    assert profile.dense["qkv_proj"](8) == pytest.approx(1e-9 * Product(8, 64, 128).numbers)
    assert profile.dense["qkv_proj"](8) == pytest.approx(1e-9 * (64 * 128 + 8 * (64 + 128)))
    assert profile.decode is not None
    assert profile.decode(0, 0, 4, 32) == pytest.approx(1e-9 * 16 * (2 * 2 * 4 * 32 + 2 * 4 * 4))
    assert profile.facts["date"] == "2026-11-21T00:00:00+00:00"
    assert (profile.facts["gpu"], profile.facts["driver"]) == ("toy", "1.2")
    # Quartiles at 0.9 and 1.1 of the median.
    assert list(measured.spread.values()) == pytest.approx(len(measured.spread) * [0.1])
    assert profile.facts["spread"] == "median 0.1000, largest 0.1000"
    path = tmp_path / "toy.parquet"
    write_parquet(profile, path, spread=measured.spread)
    spreads = pl.read_parquet(path).filter(pl.col("kernel").is_in(["dense", "per_sequence", "experts"]))
    assert spreads["spread"].null_count() == 0
    again = read_parquet(path)
    assert (again.tensor_parallel, again.facts["driver"]) == (1, "1.2")
    instance = Instance(model=DENSE, num_blocks=100, max_model_len=1024, cost=Table(profile=str(path)))
    assert instance.to_wire()["cost"]["kind"] == "table"


def test_equal_kernels_are_measured_once() -> None:
    device = Device()
    profile_model(DENSE, device, axes=AXES, warmup=1, repeat=5)
    assert len(device.asked) == len(set(device.asked))


def test_experts_are_measured_by_tokens_and_experts(tmp_path: Path) -> None:
    measured = profile_model(MIXTURE, Device(), axes=AXES, warmup=1, repeat=5)
    assert sorted(measured.profile.experts) == [2, 4, 8]
    # One token activates no more than the two that it is routed to.
    assert {n: curve.at[0] for n, curve in measured.profile.experts.items()} == {2: 1, 4: 2, 8: 4}
    work = ExpertsWork(tokens=8, activated=4, per_token=2, hidden=64, width=32)
    assert measured.profile.expert_time(8, 4) == pytest.approx(1e-9 * work.numbers)
    assert "gate_up_proj" not in measured.profile.dense
    path = tmp_path / "toy.parquet"
    write_parquet(measured.profile, path, spread=measured.spread)
    assert Table(profile=str(path)).to_wire(MIXTURE)["tokens"]["ticks"][0] > 0


def test_what_does_not_fit_is_left_out_and_counted() -> None:
    everything = list(plan(DENSE, AXES))
    least = 2 * max(work.numbers for _, work in everything if not isinstance(work, Attention))
    limit = max(least, 2 * 16 * (2 * 2 * 2 * 64 + 2 * 4 * 2))
    measured = profile_model(DENSE, Device(memory_bytes=limit), axes=AXES, warmup=1, repeat=5)
    left = sum(2 * work.numbers > limit for _, work in everything)
    assert measured.profile.facts["left_out"].startswith(f"{left} of {len(everything)} sizes")
    with pytest.raises(ConfigError, match="must fit into the device's memory"):
        profile_model(DENSE, Device(memory_bytes=0), axes=AXES, warmup=1, repeat=5)


def test_a_rank_has_its_share_of_heads_and_widths() -> None:
    works = dict(plan(DENSE, AXES, tensor_parallel=2))
    assert works["dense", "qkv_proj", 1] == Product(1, 64, 64)
    assert works["dense", "down_proj", 1] == Product(1, 48, 64)
    assert works["per_sequence", "lm_head", 1] == Product(1, 64, 64)
    assert works["attention", 0, 0, 1, 16] == Attention(0, 0, 1, 16, 2, 1, 16)


def test_kinds_of_attention_without_a_kernel_are_refused() -> None:
    with pytest.raises(ConfigError, match="must have full attention"):
        plan(Model.load("deepseek-v3"), AXES)
    with pytest.raises(ConfigError, match="tokens of Axes must be a whole number"):
        Axes(tokens=0)


def test_without_torch_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from paceline.profiling.torch_backend import TorchBackend

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ConfigError, match=r"pip install 'paceline\[profile\]'"):
        TorchBackend()


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch, which is not installed")
@pytest.mark.parametrize("model", [DENSE, MIXTURE])
def test_a_tiny_model_is_measured_on_the_cpu(model: Model) -> None:
    from paceline.profiling.torch_backend import TorchBackend

    measured = profile_model(model, TorchBackend("cpu"), axes=AXES, warmup=1, repeat=3)
    assert all(time > 0 for curve in measured.profile.dense.values() for time in curve.seconds)
    assert measured.profile.facts["gpu"].startswith("CPU")
    assert measured.profile.decode is not None
    assert (measured.profile.decode.seconds > 0).all()
