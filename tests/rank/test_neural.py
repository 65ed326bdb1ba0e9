"""The neural rankers: losses, real training on drawn text, saving, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: make test-rank")
pytest.importorskip("transformers", reason="needs transformers: make test-rank")

from paceline.errors import RankError  # noqa: E402
from paceline.rank import ListwiseRanker, PairwiseRanker, PointwiseRanker, Ranker, kendall_tau, load  # noqa: E402
from paceline.rank import losses as numpy_losses  # noqa: E402
from paceline.rank.backend import Training  # noqa: E402
from paceline.rank.neural.batches import batches  # noqa: E402
from paceline.rank.neural.encoder import Encoder  # noqa: E402
from paceline.rank.neural.losses import list_mle  # noqa: E402
from paceline.rank.neural.model import NeuralModel  # noqa: E402
from paceline.rank.objectives import Comparisons, Pairwise  # noqa: E402
from unit.rank.drawn import STARTS, drawn  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def test_the_margin_ranking_loss_is_torchs_own() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((2, 200))
    label = rng.choice([-1, 1], 200)
    one, other = (torch.tensor(each, requires_grad=True) for each in (first, second))
    loss = torch.nn.MarginRankingLoss(margin=1.0)(one, other, torch.tensor(label))
    loss.backward()
    value, gradient = numpy_losses.margin_ranking(first, second, label)
    assert value == pytest.approx(loss.item())
    assert gradient == pytest.approx(one.grad.numpy())
    assert -gradient == pytest.approx(other.grad.numpy())


def test_list_mle_is_the_same_in_numpy_and_torch() -> None:
    scores = np.random.default_rng(1).standard_normal((5, 8))
    tensor = torch.tensor(scores, requires_grad=True)
    loss = list_mle(tensor)
    loss.backward()
    value, gradient = numpy_losses.list_mle(scores)
    assert value == pytest.approx(loss.item())
    assert gradient == pytest.approx(tensor.grad.numpy())


def test_the_absolute_error_is_torchs_own() -> None:
    scores, targets = np.random.default_rng(2).standard_normal((2, 50))
    tensor = torch.tensor(scores, requires_grad=True)
    loss = torch.nn.L1Loss()(tensor, torch.tensor(targets))
    loss.backward()
    value, gradient = numpy_losses.l1(scores, targets)
    assert value == pytest.approx(loss.item())
    assert gradient == pytest.approx(tensor.grad.numpy())


@pytest.mark.parametrize("within", ["batch", "all"])
def test_batches_have_pairs_far_apart_with_the_right_labels(within: Any) -> None:
    _, lengths = drawn(200)
    training = Training(
        prompts=[""] * 200, lengths=lengths, groups=np.arange(200) % 2, objective=Pairwise(), seed=3
    )
    made = list(batches(training, size=16, within=within, epoch=1))
    assert made
    for batch in made:
        assert isinstance(batch.examples, Comparisons)
        pairs = batch.examples.pairs
        first, second = batch.members[pairs.first], batch.members[pairs.second]
        assert (first % 2 == second % 2).all()
        assert ((lengths[first] > lengths[second]) == (pairs.label == 1)).all()
        longer = np.maximum(lengths[first], lengths[second])
        assert (np.abs(lengths[first] - lengths[second]) >= 0.2 * longer).all()


@pytest.mark.parametrize("kind", [PairwiseRanker, ListwiseRanker, PointwiseRanker])
def test_an_encoder_learns_and_scores_the_same_after_saving(
    kind: type[Ranker], encoder: Path, tmp_path: Path
) -> None:
    prompts, lengths = drawn(300)
    ranker = kind(family="neural", encoder=encoder, epochs=2, batch=16, held_out=0.15)  # type: ignore[call-arg]
    ranker.fit(prompts, lengths)
    probes = [f"{start} cactus." for start in STARTS]
    scores = ranker.score(probes)
    assert kendall_tau(scores, list(STARTS.values())) > 0.5
    ranker.save(tmp_path / "model")
    assert load(tmp_path / "model").score(probes) == pytest.approx(scores)
    manifest = json.loads((tmp_path / "model/manifest.json").read_text())
    assert manifest["settings"]["encoder"] == "model"
    assert manifest["settings"]["pooling"] == "mean"
    assert manifest["settings"]["light_share"] > 0
    assert manifest["settings"]["precision"] in ("float32", "bfloat16")
    assert len(manifest["settings"]["validation_pair_accuracy"]) == 2
    kinds = {Path(name).suffix for name in manifest["files"]}
    assert kinds <= {".safetensors", ".json", ".txt", ".md", ".jinja"}
    weights = next((tmp_path / "model/encoder").glob("*.safetensors"))
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(RankError, match="must be as it was saved"):
        load(tmp_path / "model")


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_batch_is_multiplied_in_the_precision_and_weights_are_kept_in_float32(
    precision: Any, encoder: Path
) -> None:
    made = Encoder(str(encoder), pooling="auto", max_tokens=16, download=False, precision=precision)
    for module in made.body.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0  # so that passes can be compared
    tokens = made.tokens(["Name a river.", "Write a story about a lamp."])
    exact, found = made.score(tokens), made.train(tokens)
    assert found.dtype == torch.float32
    off = np.abs(found.detach().numpy() - exact).max()
    # bfloat16 keeps 8 bits of a product's factors.
    assert off == pytest.approx(0.0, abs=1e-6) if precision == "float32" else 1e-6 < off < 0.1
    found.sum().backward()
    assert {each.dtype for each in made.parameters()} == {torch.float32}
    assert {each.grad.dtype for each in made.parameters() if each.grad is not None} == {torch.float32}


def test_the_light_family_has_its_share_of_the_spread_of_scores(encoder: Path) -> None:
    prompts, lengths = drawn(60)
    options: dict[str, Any] = {"encoder": encoder, "epochs": 1, "batch": 16, "held_out": 0}
    alone = PairwiseRanker(family="neural", light_share=0.0, **options).fit(prompts, lengths)
    mixed = PairwiseRanker(family="neural", light_share=0.25, **options).fit(prompts, lengths)
    light = PairwiseRanker(held_out=0).fit(prompts, lengths).score(prompts)
    encoded = alone.score(prompts)
    expected = 0.75 * encoded + 0.25 * encoded.std() * light / light.std()
    assert mixed.score(prompts) == pytest.approx(expected, abs=1e-3 * encoded.std())


def test_scores_of_several_encoders_are_the_mean_of_those_trained_with_each_seed(
    encoder: Path, tmp_path: Path
) -> None:
    prompts, lengths = drawn(60)
    options: dict[str, Any] = {
        "family": "neural",
        "encoder": encoder,
        "epochs": 1,
        "batch": 16,
        "light_share": 0.0,
        "held_out": 0,
    }
    alone = [PairwiseRanker(seed=seed, **options).fit(prompts, lengths).score(prompts) for seed in (3, 4)]
    assert not np.allclose(*alone)
    steps: list[tuple[int, int]] = []
    both = PairwiseRanker(seed=3, encoders=2, **options)
    both.fit(prompts, lengths, progress=lambda done, total: steps.append((done, total)))
    assert both.score(prompts) == pytest.approx((alone[0] + alone[1]) / 2, abs=1e-5)
    assert steps == [(done, 8) for done in range(1, 9)]  # four batches of 15, twice
    both.save(tmp_path / "model")
    assert load(tmp_path / "model").score(prompts) == pytest.approx(both.score(prompts))


def test_a_model_saved_before_there_were_shares_is_one_encoder_alone(encoder: Path, tmp_path: Path) -> None:
    prompts, lengths = drawn(40)
    ranker = PairwiseRanker(family="neural", encoder=encoder, epochs=1, light_share=0.0, held_out=0)
    ranker.fit(prompts, lengths)
    ranker.backend.save(tmp_path)
    settings = ranker.backend.settings()
    assert [settings.pop(name) for name in ("encoders", "light_share", "light")] == [1, 0.0, None]
    assert NeuralModel.load(tmp_path, settings).score(prompts) == pytest.approx(ranker.score(prompts))


def test_a_light_share_that_is_none_is_refused(encoder: Path) -> None:
    with pytest.raises(RankError, match=r"light_share must be a share from 0 to below 1, was 1\.0"):
        PairwiseRanker(family="neural", encoder=encoder, light_share=1.0)


def test_a_precision_that_is_unknown_is_refused(encoder: Path) -> None:
    with pytest.raises(RankError, match=r"precision must be .*, was 'float16'"):
        PairwiseRanker(family="neural", encoder=encoder, precision="float16")


def test_an_encoder_that_is_not_here_is_not_fetched() -> None:
    prompts, lengths = drawn(30)
    with pytest.raises(
        RankError, match="cannot be loaded; it must be a local folder, or on this machine, unless"
    ):
        PairwiseRanker(family="neural", encoder="nobo/nothing").fit(prompts, lengths)
