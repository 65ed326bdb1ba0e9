"""`paceline rank`: train rankers of prompts by the length of their answers, evaluate them, score prompts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from paceline.cli.examples import epilogue
from paceline.cli.options import Flag

if TYPE_CHECKING:
    import polars as pl

    from paceline.cli.progress import TaskBar
    from paceline.rank import Ranker
    from paceline.rank.backend import Progress

__all__ = ["app"]

Column = Literal["dataset", "model"]

app = App(
    name="rank",
    help="Train rankers of prompts by the length of their answers, evaluate them, and score prompts.",
    help_format="plaintext",
    help_epilogue=epilogue("rank"),
)


@app.command
def train(
    files: Annotated[tuple[Path, ...], Parameter(negative="")],
    /,
    *,
    out: Path,
    lengths: Path | None = None,
    objective: Literal["pairwise", "listwise", "pointwise"] = "pairwise",
    family: Literal["light", "neural"] = "light",
    encoder: str | None = None,
    download: Flag = False,
    delta: float | None = None,
    partners: int | None = None,
    margin: float | None = None,
    list_size: int | None = None,
    epochs: int | None = None,
    batch: int | None = None,
    rate: float | None = None,
    seed: int = 0,
    held_out: float = 0.1,
    note: str = "",
    json: Flag = False,
    quiet: Flag = False,
) -> None:
    """Train a ranker on prompts and the lengths of their answers, and save it.

    Parameters
    ----------
    files
        CSV, JSON Lines, JSON or Parquet with the columns prompt and output_tokens, or those of Alpaca.
    out
        Folder to write.
    lengths
        A table of lengths, joined to the prompts of the one file by id or prompt_id.
    objective
        What it is trained for: the margin ranking loss of pairs, ListMLE of lists, or L1 of log lengths.
    family
        Hashed n-grams in numpy, or an encoder with the extra paceline[rank].
    encoder
        Of the neural family: a local folder, or a name of the Hugging Face hub.
    download
        Fetch the encoder from the hub if it is not on this machine.
    delta
        Least relative difference of the lengths of a pair: 0.2 if not given; 0.25 for reasoning models.
    partners
        Pairs a sample: 10 if not given.
    margin
        Difference of scores that costs nothing: 1 if not given.
    list_size
        Samples of a list: 32 if not given.
    epochs
        Passes of the neural family over the samples.
    batch
        Examples a step of the neural family.
    rate
        Learning rate of the neural family.
    seed
        Of all that is drawn.
    held_out
        Share of the prompts that is held out, to measure tau and to calibrate.
    note
        Kept in the manifest: licences of the data, and whatever else is to be known.
    json
        Print one JSON object instead of the model card.
    quiet
        Print nothing to standard error but errors.
    """
    from paceline import rank
    from paceline.cli.output import note as say
    from paceline.cli.output import print_json
    from paceline.cli.progress import TaskBar
    from paceline.rank.card import card
    from paceline.rank.examples import read_examples

    kinds: dict[str, tuple[type[Ranker], dict[str, Any]]] = {
        "pairwise": (rank.PairwiseRanker, {"delta": delta, "partners": partners, "margin": margin}),
        "listwise": (rank.ListwiseRanker, {"list_size": list_size}),
        "pointwise": (rank.PointwiseRanker, {}),
    }
    kind, own = kinds[objective]
    options: dict[str, Any] = dict(own)
    for name, value in {
        "delta": delta,
        "partners": partners,
        "margin": margin,
        "list_size": list_size,
    }.items():
        if value is not None and name not in own:
            _refuse(f"--{name.replace('_', '-')}", f"--objective {objective}", value)
    neural = {"epochs": epochs, "batch": batch, "rate": rate, "download": download or None}
    for name, value in neural.items():
        if value is not None and family != "neural":
            _refuse(f"--{name}", f"--family {family}", value)
    options |= neural
    _need_encoder(family, encoder)
    made = kind(
        family=family,
        encoder=encoder,
        seed=seed,
        held_out=held_out,
        **{name: value for name, value in options.items() if value is not None},
    )
    samples = read_examples(files, lengths=lengths)
    with TaskBar(quiet=quiet) as bar:
        made.fit(
            samples.prompts,
            samples.lengths,
            groups=samples.groups,
            note=note,
            progress=_shown(bar, "training"),
        )
    made.save(out)
    manifest = made.manifest
    assert manifest is not None
    if json:
        import msgspec

        print_json({"folder": str(out), "dropped_rows": samples.dropped, **msgspec.to_builtins(manifest)})
    else:
        print(card(manifest), end="")
    if not quiet:
        for reason, count in samples.dropped.items():
            say(f"left out {count:,} rows: {reason}")
        say(f"wrote {out}")


@app.command
def evaluate(
    files: Annotated[tuple[Path, ...], Parameter(negative="")],
    /,
    *,
    model: Path | None = None,
    scores: Path | None = None,
    lengths: Path | None = None,
    by: Annotated[
        tuple[Literal["dataset", "model"], ...], Parameter(negative="", consume_multiple=True)
    ] = (),
    resamples: int = 1_000,
    seed: int = 0,
    json: Flag = False,
    quiet: Flag = False,
) -> None:
    """Compare scores with the lengths of answers: Kendall's tau-b with a 95% bootstrap interval.

    Parameters
    ----------
    files
        CSV, JSON Lines, JSON or Parquet with the columns prompt and output_tokens, or those of Alpaca.
    model
        Folder of a ranker; the light one that comes with Paceline if not given.
    scores
        Scores of another predictor instead: a table with id and score or predicted_tokens. Ids are those of
        the one file, row numbers from 0 if it has none.
    lengths
        A table of lengths, joined to the prompts of the one file by id or prompt_id.
    by
        Group rows by dataset, model or both; each file, dataset and model if not given.
    resamples
        Of the bootstrap.
    seed
        Of the bootstrap.
    json
        Print one JSON object instead of a table.
    quiet
        Print nothing to standard error but errors.
    """
    import polars as pl

    from paceline.cli.output import console, print_json, table
    from paceline.cli.progress import TaskBar
    from paceline.errors import RankError
    from paceline.rank import tau_by
    from paceline.rank.examples import read_examples

    samples = read_examples(files, lengths=lengths)
    if scores is not None:
        if model is not None or lengths is not None or len(files) != 1:
            raise RankError("--scores goes with one file, and neither with --model nor with --lengths")
        values = _given(files[0], scores, len(samples))
    else:
        with TaskBar(quiet=quiet) as bar:
            values = pl.Series(
                "score", _ranker(model).score(samples.prompts, progress=_shown(bar, "scoring"))
            )
    columns = tuple(by) or ("source", "dataset", "model")
    found = tau_by(samples.frame.with_columns(values), columns, resamples=resamples, seed=seed)
    if json:
        print_json({"rows": found.to_dicts(), "dropped_rows": samples.dropped})
        return
    rows = [
        (
            *(str(row[name] or "–") for name in columns),
            f"{row['samples']:,}",
            *(_figure(row[name]) for name in ("tau", "low", "high")),
        )
        for row in found.iter_rows(named=True)
    ]
    console().print(table((*columns, "samples", "tau-b", "low", "high"), rows, left=len(columns)))


@app.command
def score(
    file: Path,
    /,
    *,
    out: Path,
    model: Path | None = None,
    tokens: Flag = False,
    quantile: float = 0.5,
    trace: Path | None = None,
    quiet: Flag = False,
) -> None:
    """Score prompts, higher for a longer answer; or write scores into a trace.

    Parameters
    ----------
    file
        CSV, JSON Lines, JSON or Parquet with the columns id and prompt; with --trace also id and score, or id
        and predicted_tokens, of any predictor.
    out
        File to write: id and score as .jsonl, .csv or .parquet; with --trace a trace with a score column.
    model
        Folder of a ranker; the light one that comes with Paceline if not given.
    tokens
        Write predicted_tokens in place of scores.
    quantile
        Of the predicted tokens, from 0.05 to 0.95.
    trace
        A trace to write with the scores; an id is a request's row in it, in order of arrival from 0.
    quiet
        Print nothing to standard error but errors.
    """
    import polars as pl

    from paceline.cli.output import note as say
    from paceline.cli.progress import TaskBar
    from paceline.rank.examples import ids_in, prompts_in
    from paceline.rank.scores import KINDS, score_trace, scores_in, write_scores
    from paceline.rank.table import read_table
    from paceline.trace import read_trace

    read, rows = read_table(file)
    given = trace is not None and "prompt" not in read.columns and any(kind in read.columns for kind in KINDS)
    if given:
        scored = scores_in(read, rows)
    else:
        ids, prompts = ids_in(read, rows), prompts_in(read, rows)
        ranker = _ranker(model)
        with TaskBar(quiet=quiet) as bar:
            if tokens:
                values = ranker.predict_tokens(prompts, level=quantile)
            else:
                values = ranker.score(prompts, progress=_shown(bar, "scoring"))
        scored = pl.DataFrame([ids, pl.Series("score", values, dtype=pl.Float64)])
    if trace is None:
        kind = "predicted_tokens" if tokens else "score"
        write_scores(scored.get_column("id"), scored.get_column("score").to_numpy(), out, kind=kind)
        said = f"wrote {scored.height:,} {'predictions' if tokens else 'scores'} to {out}"
    else:
        made = score_trace(read_trace(trace), scored)
        made.write(out)
        said = f"wrote {len(made):,} requests with scores to {out}"
    if not quiet:
        say(said)


def _ranker(model: Path | None) -> Ranker:
    from paceline.rank import load
    from paceline.rank.shipped import shipped

    return shipped() if model is None else load(model)


def _given(file: Path, scores: Path, samples: int) -> pl.Series:
    """Return the scores of another predictor in the order of the file's rows."""
    import polars as pl

    from paceline.errors import RankError
    from paceline.rank.examples import ids_in
    from paceline.rank.scores import read_scores
    from paceline.rank.table import read_table

    ids = ids_in(*read_table(file)).cast(str)
    if len(ids) != samples:
        raise RankError(f"{file}: rows without an output cannot be joined to scores; remove them first")
    found = read_scores(scores)
    by_id = dict(
        zip(found.get_column("id").cast(str).to_list(), found.get_column("score").to_list(), strict=True)
    )
    for name in ids.to_list():
        if name not in by_id:
            raise RankError(f"{scores}: must have a score for each id of {file}, has none for {name!r}")
    return pl.Series("score", [by_id[name] for name in ids.to_list()], dtype=pl.Float64)


def _refuse(option: str, beside: str, value: object) -> None:
    from paceline.errors import RankError

    raise RankError(f"{option} has no meaning with {beside}, was {value}; leave it out")


def _need_encoder(family: str, encoder: str | None) -> None:
    from paceline.errors import RankError

    if family == "neural" and encoder is None:
        raise RankError(
            "--encoder must be given with --family neural: a folder, or with --download a name of the hub"
        )


def _shown(bar: TaskBar, what: str) -> Progress:
    def show(done: int, total: int) -> None:
        bar.show(what, done, total)

    return show


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
