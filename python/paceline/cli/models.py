"""`paceline models`: list the models that come with Paceline."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

__all__ = ["models"]


def models(*, json: Annotated[bool, Parameter(negative="", show_default=False)] = False) -> None:
    """List the models that --model knows.

    Parameters
    ----------
    json
        Print one JSON object instead of a table.
    """
    from rich.text import Text

    from paceline.cli.output import console, print_json, table
    from paceline.model import Model, model_names

    known = [Model.load(name) for name in model_names()]
    if json:
        print_json(
            {
                model.name: {
                    "parameters": model.parameters,
                    "layers": model.layers,
                    "weight_bytes": model.weight_bytes(),
                    "kv_bytes_per_token": model.kv_bytes_per_token(),
                    "state_bytes": model.state_bytes(),
                    "max_positions": model.max_positions,
                }
                for model in known
            }
        )
        return
    screen = console()
    rows = [
        (
            model.name,
            f"{model.parameters / 1e9:.2f}",
            f"{model.layers}",
            f"{model.weight_bytes() / 2**30:.1f}",
            f"{model.kv_bytes_per_token() / 2**10:,.0f}",
            f"{model.state_bytes() / 2**20:,.0f}" if model.recurrent else "",
            f"{model.max_positions:,}",
        )
        for model in known
    ]
    headings = (
        "model",
        "parameters (10⁹)",
        "layers",
        "weights (GiB)",
        "KV per token (KiB)",
        "state (MiB)",
        "longest sequence",
    )
    screen.print(table(headings, rows))
    screen.print(Text("A model's Hugging Face config.json will do too: --model PATH"))
