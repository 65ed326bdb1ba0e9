"""`paceline plan`: the fewest GPUs that meet an SLO at a rate."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from paceline.cli.load import DEFAULT_RATE, RateOptions
from paceline.cli.options import (
    CLUSTER,
    DEFAULT_INSTANCE,
    DEFAULT_POLICY,
    DEFAULT_READING,
    OUTPUT,
    POLICY,
    SEARCH,
    Flag,
    InstanceOptions,
    PolicyOptions,
    ReadingOptions,
    Warmup,
    warmup_of,
)
from paceline.cli.predicting import NO_PREDICTION, PredictionOptions
from paceline.cli.searching import ObjectiveOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from paceline.deployment import Instance
    from paceline.policy import Policy
from paceline.cli.waiting import NO_CLIENTS, ClientOptions

__all__ = ["plan"]


def plan(
    trace: Path,
    /,
    *,
    on: InstanceOptions = DEFAULT_INSTANCE,
    also: Annotated[tuple[str, ...], Parameter(group=CLUSTER, negative="", show_default=False)] = (),
    price: Annotated[tuple[str, ...], Parameter(group=CLUSTER, negative="", show_default=False)] = (),
    under: PolicyOptions = DEFAULT_POLICY,
    split: Annotated[str | None, Parameter(group=POLICY)] = None,
    predicting: PredictionOptions = NO_PREDICTION,
    load: RateOptions = DEFAULT_RATE,
    waiting: ClientOptions = NO_CLIENTS,
    reading: ReadingOptions = DEFAULT_READING,
    meeting: ObjectiveOptions,
    warmup: Warmup = None,
    most: Annotated[int, Parameter(group=SEARCH)] = 64,
    workers: Annotated[int | None, Parameter(group=SEARCH)] = None,
    all_: Annotated[Flag, Parameter(name="--all", group=OUTPUT)] = False,
    json: Annotated[Flag, Parameter(group=OUTPUT)] = False,
    quiet: Annotated[Flag, Parameter(group=OUTPUT)] = False,
) -> None:
    """Search for the fewest GPUs that meet an SLO at a rate.

    With --cluster FILE.toml the kinds are the distinct instances in the file, whatever their number.

    For each kind of instance, the answer is the smallest evaluated number that passes; the two numbers below
    it are evaluated, and fail. If the policy divides the instances into pools, a number fails only after all
    its divisions were replayed.

    Parameters
    ----------
    trace
        File with the requests; its format is recognised, also with .gz or .zst.
    also
        Another kind of instance to compare, as it differs from the first: gpu=a100-80gb,tp=2; names as the
        options above; may be repeated. A kind that the model does not fit is named, and left out.
    price
        Price per hour of a GPU as GPU=PRICE, for each GPU that is compared; may be repeated.
    split
        Parameters of the policy that add up to the number of instances, as prefill,decode; by default those
        that must be given, and prefill,decode where the policy has them.
    warmup
        Requests that arrive in the first so long a time (20s, 500ms; seconds without a unit) are replayed,
        but not judged.
    most
        The most GPUs of a cluster.
    workers
        Replays at a time; by default one on each core. The answer does not depend on it.
    all_
        Print every replay, and not only the answer for each kind.
    json
        Print one JSON object instead of tables.
    quiet
        Print nothing to standard error but errors.
    """
    import paceline
    from paceline.cli.output import note, print_json
    from paceline.cli.progress import TaskBar
    from paceline.errors import ConfigError

    slo = meeting.bounds()
    if also and on.file is not None:
        raise ConfigError(f"{on.file} says which kinds of instances there are; write there what --also says")
    instances, left_out = _kinds(on, also)
    prices = dict(_price(words) for words in price) if price else None
    policy, pools = _policy(under, split, instances[0])
    read = on.read()
    candidates = paceline.Candidates(
        instances,
        most=most,
        links=on.links(),
        prices=prices,
        frontend_s=0.0 if read is None else read.frontend_s,
        prediction=predicting.prediction() or (None if read is None else read.prediction),
    )
    requests = waiting.of(reading.read(trace))
    begun = time.perf_counter()
    with TaskBar(quiet=quiet) as bar:
        found = paceline.plan(
            requests,
            candidates,
            policy,
            slo,
            meeting.target,
            rate=load.rate,
            scale=load.scale,
            rule=meeting.rule,
            split=pools,
            warmup_s=warmup_of(warmup),
            workers=workers,
            progress=lambda done, total: bar.show("searching", done, total),
        )
    took = time.perf_counter() - begun
    document = {
        **found.to_dict(),
        "left_out": {**left_out, **found.left_out},
        "paceline": paceline.__version__,
        "trace": {"name": requests.name, "sha256": requests.sha256, "requests": len(requests)},
        "policy": under.policy,
    }
    if json:
        print_json(document)
    else:
        _print(document, complete=all_)
    if not quiet:
        note(f"replayed {found.evaluated.height} clusters in {took:.2f} s")


def _kinds(on: InstanceOptions, also: tuple[str, ...]) -> tuple[list[Instance], dict[str, str]]:
    """Return the kinds that the model fits, and by the options of each other kind why it does not."""
    from paceline.errors import FitError

    first = f"gpu={on.gpu}" if on.gpu else str(on.file)
    makers = {first: on.kinds, **{words: on.changed(words).kinds for words in also}}
    kinds: list[Instance] = []
    left_out: dict[str, str] = {}
    for words, make in makers.items():
        try:
            kinds += make()
        except FitError as error:
            left_out[words] = str(error)
    if not kinds:
        raise FitError("; ".join(left_out.values()))
    return kinds, left_out


def _policy(
    under: PolicyOptions,
    split: str | None,
    instance: Any,  # noqa: ANN401 - an Instance: its import would make help slow
) -> tuple[Policy | Callable[..., Policy], tuple[str, ...] | None]:
    """Return a policy, or a function of the instances of each pool and the pools' names."""
    from paceline.cli.options import layers_of
    from paceline.cli.policy_choice import counts_of

    pools = counts_of(under.policy, None if split is None else split.split(","))
    layers = layers_of(instance)
    if not pools:
        return under.choose(layers), None
    return under.factory(layers, pools), pools


def _price(words: str) -> tuple[str, float]:
    from paceline.errors import ConfigError

    gpu, _, price = (part.strip() for part in words.partition("="))
    try:
        return gpu, float(price)
    except ValueError:
        raise ConfigError(f"--price must be GPU=PRICE, such as h100-sxm=2.5, was {words!r}") from None


def _print(document: dict[str, Any], *, complete: bool) -> None:
    from rich.text import Text

    from paceline.cli.output import console
    from paceline.cli.searching import facts, objective_words
    from paceline.planning.ranges import NEAR

    screen = console()
    trace = document["trace"]
    words = f"{trace['requests']:,} requests at {document['load']}, {document['policy']}"
    title = f"{trace['name']}: {words}"
    screen.print(Text(title, style="bold"))
    screen.print()
    best = document["best"]
    if best is None:
        found = (
            f"no kind passes with {document['most']:,} GPUs or fewer; each row is the best that was replayed"
        )
    else:
        pools = zip(document["pools"], best.get("split", "").split(":"), strict=False)
        split = ", ".join(f"{number} {pool}" for pool, number in pools)
        price = f", {best['price_per_hour']:,.2f} an hour" if "price_per_hour" in best else ""
        found = (
            f"{best['instances']:,} × {best['kind']}{split and f' ({split})'}, "
            f"{best['gpus']:,} {'GPU' if best['gpus'] == 1 else 'GPUs'}{price}"
        )
    rows = [
        ("fewest", found),
        ("objective", objective_words(document["slo"], document["target"], document["rule"])),
    ]
    rows += [("left out", f"{kind}: {reason}") for kind, reason in document["left_out"].items()]
    for row in document["table"]:
        if row["passes"] and not row["monotone"]:
            rows.append(("noise", f"{row['kind']}: a larger number of instances fails"))
    for kind in document["hopeless"]:
        words = f"{kind} misses it even with each request alone, so the search ended at {NEAR} GPUs"
        rows.append(("hopeless", words))
    facts(rows)
    screen.print()
    screen.print(_table(document["evaluated"] if complete else document["table"]))


def _table(rows: list[dict[str, Any]]) -> Any:  # noqa: ANN401 - a rich table: its import would make help slow
    from paceline.cli.output import table
    from paceline.cli.searching import percent, quantity, titles

    first = rows[0]
    percentiles = titles(first)
    optional = {"split": "split", "price_per_hour": "an hour"}
    extra = {name: title for name, title in optional.items() if name in first}
    shown = [
        (
            row["kind"],
            f"{row['instances']:,}",
            *([row["split"]] if "split" in extra else []),
            f"{row['gpus']:,}",
            *([f"{row['price_per_hour']:,.2f}"] if "price_per_hour" in extra else []),
            percent(row["attainment"]),
            "–" if row["margin"] is None else percent(row["margin"], sign=True),
            *(quantity(row[name]) for name in percentiles),
            f"{row['rejected']:,}",
            "passes" if row["passes"] else "fails",
        )
        for row in rows
    ]
    headings = (
        "kind",
        "instances",
        *(["split"] if "split" in extra else []),
        "GPUs",
        *(["an hour"] if "price_per_hour" in extra else []),
        "attainment",
        "margin",
        *percentiles.values(),
        "rejected",
        "",
    )
    return table(headings, shown)
