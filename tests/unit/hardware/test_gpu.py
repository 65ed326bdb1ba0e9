"""The catalog of GPUs."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources

import pytest

from paceline.errors import ConfigError
from paceline.hardware import Gpu, gpu_names

# TFLOPS and GB/s as the datasheets print them, without sparsity.
DATASHEETS = {
    "a100-40gb": (312, 1555, 40),
    "a100-80gb": (312, 2039, 80),
    "h100-sxm": (989, 3350, 80),
    "h100-pcie": (756, 2000, 80),
    "h100-96gb": (989, 3350, 96),
    "h800": (989, 3350, 80),
    "h200": (989, 4800, 141),
    "b200": (2250, 7700, 180),
    "l40s": (362, 864, 48),
    "a10": (125, 600, 24),
    "a10g": (70, 600, 24),
    "rtx-4090": (165, 1008, 24),
    "rtx-pro-6000": (504, 1597, 96),
    "l4": (121, 300, 24),
    "rtx-5090": (209.5, 1792, 32),
    "h20": (148, 4000, 96),
    "gb200": (2500, 8000, 186),
    "b300": (2250, 7700, 270),
    "gb300": (2500, 8000, 279),
    "mi300x": (1307, 5300, 192),
}


def test_the_catalog_holds_the_gpus_of_the_field() -> None:
    assert set(gpu_names()) == set(DATASHEETS)


@pytest.mark.parametrize("name", gpu_names())
def test_figures_are_the_datasheets_in_bytes_and_flops(name: str) -> None:
    gpu = Gpu.load(name)
    tflops, gigabytes_per_s, gigabytes = DATASHEETS[name]
    assert gpu.bf16_flop_per_s / 1e12 == pytest.approx(tflops, abs=0.6)
    assert gpu.bandwidth_bytes_per_s / 1e9 == pytest.approx(gigabytes_per_s)
    assert gpu.datasheet_memory_bytes == gigabytes * 10**9
    # Drivers count what is left of binary gigabytes, so a few per cent more or fewer than the datasheet.
    assert 0.95 < gpu.memory_bytes / gpu.datasheet_memory_bytes < 1.08
    if gpu.fp8_flop_per_s is not None:
        assert gpu.fp8_flop_per_s == pytest.approx(2 * gpu.bf16_flop_per_s, rel=0.02)


@pytest.mark.parametrize("name", gpu_names())
def test_every_number_has_a_source_beside_it(name: str) -> None:
    text = (resources.files("paceline.catalog") / "gpus" / f"{name}.toml").read_text(encoding="utf-8")
    bare = [
        line
        for line in text.splitlines()
        if "=" in line and not line.startswith("#") and '"' not in line and "#" not in line
    ]
    assert not bare
    efficiency = Gpu.load(name).efficiency
    assert efficiency is not None
    assert efficiency.source


def test_an_unknown_name_says_what_is_close() -> None:
    with pytest.raises(ConfigError, match=r"there is no gpu 'h100-smx'; close to it: h100-sxm"):
        Gpu.load("h100-smx")
    with pytest.raises(ConfigError, match="there is no gpu 'H100-SXM'; close to it: h100-sxm"):
        Gpu.load("H100-SXM")
    with pytest.raises(ConfigError, match="there is no gpu 'tpu'; there are: a10, a100-40gb, a100-80gb"):
        Gpu.load("tpu")


@pytest.mark.parametrize("name", gpu_names())
def test_it_survives_toml(name: str) -> None:
    gpu = Gpu.load(name)
    assert Gpu.from_toml(gpu.to_toml()) == gpu
    bare = replace(gpu, efficiency=None, fp8_flop_per_s=None)
    assert Gpu.from_toml(bare.to_toml()) == bare


def test_a_figure_that_makes_no_sense_is_refused() -> None:
    gpu = Gpu.load("h100-sxm")
    with pytest.raises(
        ConfigError, match="bandwidth_bytes_per_s of GPU 'h100-sxm' must be a finite number above 0"
    ):
        replace(gpu, bandwidth_bytes_per_s=0.0)
    with pytest.raises(
        ConfigError, match=r"memory_bytes of GPU 'h100-sxm' must be a whole number .* was 80000000000"
    ):
        replace(gpu, memory_bytes=80e9)  # type: ignore[arg-type]
    with pytest.raises(
        ConfigError, match="link of GPU 'h100-sxm' must be one of nvlink, infinity_fabric, pcie, was 'infin"
    ):
        replace(gpu, link="infiniband")
    with pytest.raises(ConfigError, match="a GPU lacks device, memory_bytes"):
        Gpu.from_toml('name = "mine"')
