"""`paceline profiles`: import kernel profiles, list them, and look into one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from paceline.cli.examples import epilogue

__all__ = ["app"]

app = App(
    name="profiles",
    help="Import kernel profiles, list them, and look into one.",
    help_format="plaintext",
    help_epilogue=epilogue("profiles"),
)

Json = Annotated[bool, Parameter(negative="", show_default=False)]


@app.command(name="import")
def import_(
    source: str,
    /,
    *,
    into: Path | None = None,
    name: str | None = None,
    gpu: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    backend: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    tp: int | None = None,
    json: Json = False,
) -> None:
    """Import kernel profiles, so that cost tables find them by name.

    Parameters
    ----------
    source
        A wheel of aisimulate, a folder of its data, or the word aisimulate for the installed package; a
        folder with Vidur's mlp.csv and attention.csv, or of LLMServingSim's profiler; or a file of our own.
    into
        Folder to import to; $PACELINE_PROFILES or the user's data folder if not given.
    name
        Name of a single model's profile; after the source if not given.
    gpu
        Of aisimulate's data, only this GPU's, as it calls it; may be repeated.
    backend
        Of aisimulate's data, only this engine's: vllm, sglang or trtllm; may be repeated.
    tp
        Of a source with several degrees of tensor parallelism, the one to take.
    json
        Print one JSON object instead of a table.
    """
    from paceline.cli.output import console, print_json
    from paceline.kernels.importing import import_profiles
    from paceline.kernels.store import user_folder

    names = import_profiles(source, into=into, name=name, gpus=gpu, backends=backend, tensor_parallel=tp)
    folder = into or user_folder()
    if json:
        print_json({"folder": str(folder), "names": list(names)})
        return
    for imported in names:
        console().print(imported)
    console().print(f"in {folder}")


@app.command(name="list")
def list_(*, folder: Path | None = None, json: Json = False) -> None:
    """List the profiles that come with Paceline, and those that have been imported.

    Parameters
    ----------
    folder
        Where to look; $PACELINE_PROFILES or the user's data folder if not given.
    json
        Print one JSON object instead of a table.
    """
    from paceline.cli.output import console, print_json, table
    from paceline.kernels.store import shipped, stored, user_folder

    where = folder or user_folder()
    imported = stored(where)
    entries = (*shipped(), *imported)
    if json:
        found = {e.name: {"what": e.what, "path": str(e.path), **e.origin} for e in entries}
        print_json({"folder": str(where), "profiles": found})
        return
    rows = [(entry.name, entry.what, entry.origin.get("source", "")) for entry in entries]
    console().print(table(["profile", "of", "from"], rows, left=3))
    console().print(f"{len(imported)} in {where}, {len(rows) - len(imported)} come with Paceline")


@app.command
def show(
    name: str,
    /,
    *,
    model: str | None = None,
    tp: int = 1,
    dp: int = 1,
    expert_parallel: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    out: Path | None = None,
    json: Json = False,
) -> None:
    """Show what a profile was measured with, and how far its tables reach.

    Parameters
    ----------
    name
        A name from `paceline profiles list`, or a path.
    model
        The model to assemble from operators: a name from `paceline models`, or a Hugging Face config.json.
    tp
        GPUs that the model is split over.
    dp
        Groups of these that share the experts.
    expert_parallel
        Whether whole experts are distributed over ranks.
    out
        Also write the profile to this file, in our format.
    json
        Print one JSON object instead of a table.
    """
    from paceline.cli.output import console, print_json, table
    from paceline.kernels import Table, write_parquet
    from paceline.model import Model

    shape = None
    if model is not None:
        shape = Model.from_hf_config(model) if Path(model).exists() else Model.load(model)
    cost = Table(profile=name, data_parallel=dp, expert_parallel=expert_parallel)
    profile = cost.read(shape, tensor_parallel=tp)
    if out is not None:
        write_parquet(profile, out)
    reach = _reach(profile)
    if json:
        print_json({"name": profile.name, "facts": dict(profile.facts), "tables": reach})
        return
    console().print(profile.name)
    facts = [(key, value) for key, value in profile.facts.items() if "." not in key]
    console().print(table(["", ""], facts, left=2))
    rows = [(kernel, *(str(value) for value in ends.values())) for kernel, ends in reach.items()]
    console().print(table(["kernel", "points", "to"], rows, left=1))


def _reach(profile: Any) -> dict[str, dict[str, Any]]:  # noqa: ANN401 - imported when it is called
    """Return each table's points and the end of its axes."""
    reach: dict[str, dict[str, Any]] = {}
    for layer, curve in {**profile.dense, **profile.per_sequence}.items():
        reach[layer] = {"points": len(curve.at), "to": curve.end}
    for kind in ("decode", "prefill", "mixed"):
        grid = getattr(profile, kind)
        if grid is not None:
            axes = ("tokens", "history", "requests", "context")
            ends = {axis: at[-1] for axis, at in zip(axes, grid.axes, strict=True) if at[-1]}
            to = ", ".join(f"{end} {axis}" for axis, end in ends.items())
            reach[f"attention, {kind}"] = {"points": int(grid.seconds.size), "to": to}
    for count, curve in sorted(profile.experts.items()):
        reach[f"experts, {count} activated"] = {"points": len(curve.at), "to": curve.end}
    for exchange, curve in profile.collectives.items():
        reach[exchange] = {"points": len(curve.at), "to": f"{curve.end} bytes"}
    return reach
