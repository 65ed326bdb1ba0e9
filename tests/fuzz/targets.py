"""The fuzz targets: each reader of files, with valid files for it and a way to damage them."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import tomli_w
import zstandard
from hypothesis import strategies as st

import paceline
from fuzz.benches import BENCHES, aiperf, aiperf_files, bench_tree, benches
from fuzz.mutations import damaged, damaged_tree
from paceline import Cluster, Instance, Trace, policies
from paceline._toml import parse
from paceline.calibration import read_observations
from paceline.conformance import check, read_log
from paceline.kernels import read_profile
from paceline.kernels.importing import import_profiles
from paceline.kernels.parquet import write_parquet
from paceline.model import Model
from paceline.policy import Policy
from paceline.result import load_result
from paceline.result.manifest import file_entry, read_manifest, write_manifest
from paceline.synthesis import read_servegen
from paceline.validation import validate
from properties.agent_seeds import AGENT_SEEDS
from properties.test_readers_fuzz import SEEDS
from unit.kernels.making import SYSTEM, make_database, make_folder

__all__ = ["CONFIGS", "ENGINE", "REQUESTS", "TARGETS", "Target", "emptied", "short_logs"]

LOGS = Path(__file__).resolve().parents[1] / "conformance" / "logs"


@dataclass(frozen=True, slots=True)
class Target:
    """A reader, its inputs, and a call of it in a folder of its own.

    A call may raise only errors of Paceline's.
    """

    name: str
    inputs: st.SearchStrategy[Any]
    call: Callable[[Path, Any], object]


def _trace(folder: Path, data: bytes) -> None:
    (folder / "trace").write_bytes(data)
    paceline.read_trace(folder / "trace")


def _trace_choices(folder: Path, given: tuple[bytes, dict[str, Any]]) -> None:
    data, choices = given
    (folder / "trace").write_bytes(data)
    paceline.read_trace(folder / "trace", **choices)


_CHOICES = st.fixed_dictionaries(
    {},
    optional={
        "format": st.sampled_from(["mooncake-delta", "timed_trace", "agentic_mooncake", "bailian"]),
        "unit": st.sampled_from(["s", "ms", "us", "ns"]),
        "block_tokens": st.sampled_from([1, 16, 512]),
        "arrivals": st.sampled_from(["recorded", "dependent"]),
    },
)
"""What a caller decides about a file's fields."""


def _agents(folder: Path, data: bytes) -> None:
    (folder / "trace").write_bytes(data)
    paceline.read_trace(folder / "trace", arrivals="dependent")


@cache
def _packed() -> list[bytes]:
    return [pack(seed) for seed in SEEDS for pack in (gzip.compress, zstandard.ZstdCompressor().compress)]


@cache
def _parquet() -> bytes:
    """Return a trace as another tool writes it: without a checksum."""
    file = io.BytesIO()
    frame = pl.DataFrame(
        {
            "arrival": [0.0, 0.5, 2.0] * 20,
            "prompt_tokens": [5, 6, 7] * 20,
            "output_tokens": [1, 2, 3] * 20,
            "tenant": ["a", None, "b"] * 20,
            "prefix": [[1], [], [1]] * 20,
            "prefix_block_tokens": [4] * 60,
        }
    )
    frame.write_parquet(file)
    return file.getvalue()


@cache
def _baseten() -> bytes:
    """Return a trace of Baseten's."""
    file = io.BytesIO()
    frame = pl.DataFrame(
        {
            "timestamp_start_unix_ms": [1_767_225_600_000, 1_767_225_602_000] * 30,
            "prompt": ["a", "b"] * 30,
            "input_tokens": [100, 60] * 30,
            "output_tokens": [20, 5] * 30,
            "total_hashes": [[1, 2], None] * 30,
            "block_size": [64] * 60,
            "provided_session_id": ["s", None] * 30,
            "duration_e2e_ms": [1500, None] * 30,
        }
    )
    frame.write_parquet(file)
    return file.getvalue()


@cache
def _policies() -> list[str]:
    made = [
        policies.vllm(),
        policies.vllm_v0(),
        policies.sglang(),
        policies.pascal(),
        policies.andes(),
    ]
    return [policy.to_toml() for policy in [*made, policies.fastserve(), policies.static()]]


def _policy(_: Path, text: bytes) -> None:
    Policy.from_toml(text.decode("utf-8", "replace"))


def _without_none(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_none(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_without_none(value) for value in tree]
    return "none" if tree is None else tree


def _policy_tree(_: Path, tree: Any) -> None:
    Policy.from_toml(tomli_w.dumps(_without_none(tree)))


@cache
def _folder_files() -> dict[str, bytes]:
    """Return a kernel profile in LLMServingSim's format, a file for each name."""
    return _made(make_folder)


@cache
def _made(make: Callable[[Path], Path]) -> dict[str, bytes]:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        made = make(Path(name) / "made")
        files = sorted(file for file in made.rglob("*") if file.is_file())
        return {file.relative_to(made).as_posix(): file.read_bytes() for file in files}


def _write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


@st.composite
def _one_damaged(draw: st.DrawFn, files: Callable[[], dict[str, bytes]]) -> dict[str, bytes]:
    """Damage one file of several."""
    made = dict(files())
    name = draw(st.sampled_from(sorted(made)))
    return {**made, name: draw(damaged(st.just(made[name])))}


def _import_folder(folder: Path, files: dict[str, bytes]) -> None:
    import_profiles(_write(folder / "source", files), into=folder / "into", name="fuzzed")
    assert sorted(path.name for path in folder.iterdir()) == ["into", "source"]


@cache
def _profile_parquet() -> bytes:
    """Return a profile in our format as another tool would write it: without a checksum."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        source = make_folder(Path(name) / "made")
        write_parquet(read_profile(source), Path(name) / "p.parquet")
        pl.read_parquet(Path(name) / "p.parquet").write_parquet(Path(name) / "p.parquet")
        return (Path(name) / "p.parquet").read_bytes()


def _profile(folder: Path, data: bytes) -> None:
    (folder / "p.parquet").write_bytes(data)
    read_profile(folder / "p.parquet")


@st.composite
def _wheels(draw: st.DrawFn) -> bytes:
    """Draw a wheel in which some names, contents or bytes are damaged."""
    file = io.BytesIO()
    root = "aisimulate_core/systems"
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in _made(make_database).items():
            written = f"{root}/{name.removeprefix('systems/')}"
            if draw(st.integers(0, 5)) == 0:
                written = (
                    draw(damaged(st.just(written.encode()))).decode("utf-8", "replace").replace("\0", "")
                )
            kept = draw(damaged(st.just(data))) if draw(st.integers(0, 4)) == 0 else data
            archive.writestr(written[:60_000] or "x", kept)
        archive.writestr(f"{root}/toy.yaml", SYSTEM)
    made = file.getvalue()
    return draw(damaged(st.just(made))) if draw(st.integers(0, 3)) == 0 else made


def _import_wheel(folder: Path, data: bytes) -> None:
    (folder / "source.whl").write_bytes(data)
    try:
        import_profiles(folder / "source.whl", into=folder / "deep" / "into")
    finally:
        assert {path.name for path in folder.iterdir()} <= {"deep", "source.whl"}
        deep = folder / "deep"
        assert not deep.exists() or [path.name for path in deep.iterdir()] in ([], ["into"])


ENGINE = {
    "model": "meta-llama/Llama-3.1-8B",
    "engine_kwargs": {
        "tensor_parallel_size": 1,
        "data_parallel_size": 1,
        "enable_expert_parallel": False,
        "max_num_seqs": 8,
        "max_num_batched_tokens": 512,
        "max_model_len": 4096,
        "kv_cache_dtype": "auto",
    },
    "kv_cache": {
        "block_size": 16,
        "num_gpu_blocks": 200,
        "gpu_memory_utilization": 0.9,
        "enable_prefix_caching": True,
    },
    "link": {"bandwidth_gb_per_s": 50.0, "latency_us": 2.0},
}
REQUESTS: dict[str, list[Any]] = {
    "arrival_s": [0.0, 0.5],
    "prompt_tokens": [40, 50],
    "output_tokens": [3, 4],
    "first_token_s": [0.1, 0.7],
    "last_token_s": [0.2, 0.9],
    "prefix_block_ids": [[1, 2], [1]],
}
PEER = "TTFT Mean 65456.6 65820.2 +0.6%\nTPOT P99 12.1 12.2 +1%\n"


@st.composite
def _runs(draw: st.DrawFn) -> tuple[Any, dict[str, Any], bytes, dict[str, bytes]]:
    """Damage one part of a measured run: settings, requests, the peer's text or the profile."""
    which = draw(st.integers(0, 3))
    return (
        draw(damaged_tree(st.just(ENGINE))) if which == 0 else ENGINE,
        draw(damaged_tree(st.just(REQUESTS))) if which == 1 else REQUESTS,
        draw(damaged(st.just(PEER.encode()))) if which == 2 else PEER.encode(),
        draw(_one_damaged(_folder_files)) if which == 3 else _folder_files(),
    )


def _validate(folder: Path, run: tuple[Any, dict[str, Any], bytes, dict[str, bytes]]) -> None:
    engine, requests, peer, profile = run
    try:
        frame = pl.DataFrame(requests, strict=False)
        frame.write_parquet(folder / "requests.parquet")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, TypeError, ValueError, OverflowError):
        return  # not even a file
    (folder / "engine.json").write_text(json.dumps(engine))
    (folder / "peer-llmservingsim.txt").write_bytes(peer)
    _write(folder / "profile", profile)
    validate(folder)


@cache
def short_logs() -> list[Any]:
    """Return short logs of each kind: the first requests, and the steps that serve them."""
    logs = []
    for kind in ("vllm", "vllm-v0", "layered"):
        log = json.loads(gzip.decompress(sorted((LOGS / kind).glob("*.gz"))[0].read_bytes()))
        decided = log["log"]
        short = {name: rows[:6] for name, rows in decided.items()}
        logs.append({**log, "requests": log["requests"][:6], "log": short})
    return logs


def _log(folder: Path, tree: Any) -> None:
    (folder / "log.json").write_text(json.dumps(tree))
    check(read_log(folder / "log.json"), leap=True)


def _log_bytes(folder: Path, data: bytes) -> None:
    (folder / "log.json").write_bytes(data)
    check(read_log(folder / "log.json"), leap=True)


BASE = {
    "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192, "dtype": "bfloat16",
    "tie_word_embeddings": False, "attention_bias": False, "head_dim": 128, "sliding_window": 1024,
    "_name_or_path": "a/b",
}  # fmt: skip
MIXTURE = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 768}
CONFIGS = [
    {"model_type": "llama", **BASE},
    {"model_type": "qwen2", **BASE, "use_sliding_window": True, "max_window_layers": 4},
    {"model_type": "qwen3_moe", **BASE, **MIXTURE, "mlp_only_layers": [0], "decoder_sparse_step": 1},
    {"model_type": "gpt_oss", **BASE, **MIXTURE, "layer_types": ["sliding_attention", "full"] * 16},
    {
        **{"model_type": "deepseek_v3", **BASE, **MIXTURE, "kv_lora_rank": 512, "qk_rope_head_dim": 64},
        **{"qk_nope_head_dim": 128, "v_head_dim": 128, "q_lora_rank": 1536, "n_shared_experts": 1},
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    },
]


def _config(folder: Path, tree: Any) -> None:
    (folder / "config.json").write_text(json.dumps(tree))
    Model.from_hf_config(folder)


@cache
def _result() -> dict[str, bytes]:
    trace = Trace.from_columns(arrival=[0.0, 1.0], prompt_tokens=[5, 6], output_tokens=[7, 8])
    result = paceline.replay(trace, Cluster([Instance(model="llama-3.1-8b", gpu="h100-sxm")]))
    return _made(lambda folder: result.save(folder))


@st.composite
def _results(draw: st.DrawFn) -> tuple[Any, Any]:
    files = _result()
    manifest, sketch = json.loads(files["manifest.json"]), json.loads(files["itl.json"])
    if draw(st.booleans()):
        return draw(damaged_tree(st.just(manifest))), sketch
    return manifest, draw(damaged_tree(st.just(sketch)))


def _load(folder: Path, trees: tuple[Any, Any]) -> None:
    """Load a result whose checksums were made again after the damage."""
    manifest, sketch = trees
    _write(folder / "run", _result())
    if sketch != json.loads(_result()["itl.json"]):
        (folder / "run" / "itl.json").write_text(json.dumps(sketch))
        whole = read_manifest(folder / "run")
        whole["files"]["itl.json"] = file_entry(folder / "run" / "itl.json")
        manifest = whole
    if isinstance(manifest, dict):
        write_manifest(folder / "run", {key: value for key, value in manifest.items() if key != "checksum"})
    result = load_result(folder / "run")
    result.summary()
    result.totals()
    assert result.itl.quantile_s(0.5) is not None


SERVEGEN = {
    "chunk-0-trace.csv": b"0,1.5,1.0,Gamma,1.0,1.0\n600,0.5,2.0,Weibull,0.5,1.0\n",
    "chunk-0-dataset.json": json.dumps(
        {
            "0": {
                "input_tokens": "{10: 0.5, 20: 0.5}",
                "output_tokens": "{5: 1.0}",
                "reason_ratio": "{0.5: 1.0}",
            }
        }
    ).encode(),
}
CALIBRATION = b"""model = "llama-3.1-8b"
gpu = "h100-sxm"
[[parameters]]
name = "memory"
[[observations]]
kind = "step"
name = "a"
value = 0.01
decodes = 4
context = 400
source = "by hand"
"""


def _servegen(folder: Path, files: dict[str, bytes]) -> None:
    read_servegen(_write(folder / "servegen", files))


@cache
def _tar() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, data in SERVEGEN.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


def _servegen_tar(folder: Path, data: bytes) -> None:
    (folder / "servegen.tar").write_bytes(data)
    read_servegen(folder / "servegen.tar")


def _calibration(folder: Path, data: bytes) -> None:
    (folder / "c.toml").write_bytes(data)
    read_observations(folder / "c.toml")


def _trees(texts: Callable[[], list[str]]) -> st.SearchStrategy[Any]:
    return st.deferred(lambda: st.sampled_from([parse(text, "a policy") for text in texts()]))


TARGETS = (
    Target("trace-text", damaged(st.sampled_from(SEEDS)), _trace),
    Target("trace-choices", st.tuples(damaged(st.sampled_from(SEEDS)), _CHOICES), _trace_choices),
    Target("trace-baseten", damaged(st.deferred(lambda: st.just(_baseten()))), _trace),
    Target("trace-agents", damaged(st.sampled_from(AGENT_SEEDS)), _agents),
    Target("trace-packed", damaged(st.deferred(lambda: st.sampled_from(_packed()))), _trace),
    Target("trace-parquet", damaged(st.deferred(lambda: st.just(_parquet()))), _trace),
    Target(
        "policy-text",
        damaged(st.deferred(lambda: st.sampled_from([text.encode() for text in _policies()]))),
        _policy,
    ),
    Target("policy-tree", damaged_tree(_trees(_policies)), _policy_tree),
    Target("profile-folder", _one_damaged(_folder_files), _import_folder),
    Target("profile-parquet", damaged(st.deferred(lambda: st.just(_profile_parquet()))), _profile),
    Target("profile-wheel", _wheels(), _import_wheel),
    Target("validate", _runs(), _validate),
    Target("conformance", damaged_tree(st.deferred(lambda: st.sampled_from(short_logs()))), _log),
    Target(
        "conformance-bytes",
        damaged(st.deferred(lambda: st.sampled_from([json.dumps(log).encode() for log in short_logs()]))),
        _log_bytes,
    ),
    Target("model-config", damaged_tree(st.sampled_from(CONFIGS)), _config),
    Target("saved-result", _results(), _load),
    Target("servegen", _one_damaged(lambda: SERVEGEN), _servegen),
    Target("servegen-tar", damaged(st.deferred(lambda: st.just(_tar()))), _servegen_tar),
    Target("calibration", damaged(st.just(CALIBRATION)), _calibration),
    Target("bench-tree", damaged_tree(st.sampled_from(BENCHES)), bench_tree),
    Target("bench-text", damaged(st.sampled_from([json.dumps(each).encode() for each in BENCHES])), benches),
    Target("bench-aiperf", aiperf_files(), aiperf),
)


def emptied(folder: Path) -> Path:
    """Return the folder with nothing in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
