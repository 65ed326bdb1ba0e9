"""The part of `paceline validate` that fits a roofline to Splitwise's measurements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from paceline.validation.splitwise import RooflineFit

__all__ = ["compare_roofline"]


def compare_roofline(folder: Path, reductions: Path | None, *, json: bool) -> None:
    """Fit half of the sizes of each GPU, and print what all take, measured and by the fit."""
    from paceline.cli.output import console, print_json
    from paceline.validation.splitwise import fit_roofline, read_splitwise

    cells = read_splitwise(folder)
    fits = [fit_roofline(cells, gpu, reductions=reductions) for gpu in sorted({cell.gpu for cell in cells})]
    if json:
        print_json({fit.gpu: _document(fit) for fit in fits})
        return
    for fit in fits:
        console().print(_table(fit))
        console().print(f"fitted: {', '.join(f'{name} {value:.4g}' for name, value in fit.fitted.items())}")
        for held_out, half in ((False, "fitted to"), (True, "held out")):
            prompt, token = _mean(fit, held_out=held_out)
            console().print(f"{half}: prompts {prompt:.1%} off in the mean, decode steps {token:.1%}")
        console().print()


def _mean(fit: RooflineFit, *, held_out: bool) -> tuple[float, float]:
    errors = np.abs(fit.errors(held_out=held_out)).mean(axis=0)
    return float(errors[0]), float(errors[1])


def _half(odd: str, held_out: bool) -> str:
    return odd or ("held out" if held_out else "fitted to")


def _table(fit: RooflineFit) -> Any:  # noqa: ANN401 - a rich table
    from paceline.cli.output import table

    rows = [
        [
            f"{fit.gpu} x {cell.tensor_parallel}",
            f"{cell.prompt_tokens:,}",
            str(cell.batch),
            f"{1e3 * cell.prompt_s:,.0f}",
            f"{first / cell.prompt_s - 1:+.0%}",
            f"{1e3 * cell.token_s:.1f}",
            f"{later / cell.token_s - 1:+.0%}",
            _half(cell.odd, cell.held_out),
        ]
        for cell, (first, later) in zip(fit.cells, fit.predicted.tolist(), strict=True)
    ]
    return table(["GPUs", "tokens", "prompts", "prompt ms", "off by", "token ms", "off by", ""], rows)


def _document(fit: RooflineFit) -> dict[str, Any]:
    return {
        "fitted": dict(fit.fitted),
        "mean_error": {
            half: dict(zip(("prompt_time", "token_time"), _mean(fit, held_out=held), strict=True))
            for half, held in (("fitted_to", False), ("held_out", True))
        },
        "cells": [
            {
                "tensor_parallel": cell.tensor_parallel,
                "prompt_size": cell.prompt_tokens,
                "batch_size": cell.batch,
                "half": _half(cell.odd, cell.held_out),
                "prompt_time": {"measured": cell.prompt_s, "fit": first},
                "token_time": {"measured": cell.token_s, "fit": later},
            }
            for cell, (first, later) in zip(fit.cells, fit.predicted.tolist(), strict=True)
        ],
    }
