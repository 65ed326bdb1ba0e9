"""`paceline gpus`: list the GPUs that come with Paceline."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

__all__ = ["gpus"]


def gpus(*, json: Annotated[bool, Parameter(negative="", show_default=False)] = False) -> None:
    """List the GPUs that --gpu knows.

    Parameters
    ----------
    json
        Print one JSON object instead of a table.
    """
    from paceline.cli.output import console, print_json, table
    from paceline.hardware import Gpu, gpu_names

    known = [Gpu.load(name) for name in gpu_names()]
    if json:
        print_json(
            {
                gpu.name: {
                    "device": gpu.device,
                    "memory_bytes": gpu.memory_bytes,
                    "bandwidth_bytes_per_s": gpu.bandwidth_bytes_per_s,
                    "bf16_flop_per_s": gpu.bf16_flop_per_s,
                    "fp8_flop_per_s": gpu.fp8_flop_per_s,
                    "link": gpu.link,
                    "link_bytes_per_s": gpu.link_bytes_per_s,
                    "tdp_w": gpu.tdp_w,
                }
                for gpu in known
            }
        )
        return
    rows = [
        (
            gpu.name,
            gpu.device,
            f"{gpu.memory_bytes / 2**30:.1f}",
            f"{gpu.bandwidth_bytes_per_s / 1e9:,.0f}",
            f"{gpu.bf16_flop_per_s / 1e12:,.0f}",
            gpu.link,
            f"{gpu.link_bytes_per_s / 1e9:,.0f}",
            f"{gpu.tdp_w:,.0f}",
        )
        for gpu in known
    ]
    headings = ("gpu", "device", "GiB", "GB/s", "16-bit TFLOP/s", "link", "GB/s", "W")
    console().print(table(headings, rows, left=2))
