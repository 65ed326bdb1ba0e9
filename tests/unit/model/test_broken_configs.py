"""A Hugging Face config with a field of another type is refused by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fuzz.targets import CONFIGS
from paceline.errors import ConfigError
from paceline.model import Model


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: str(config["model_type"]))
def test_the_configs_that_the_cases_change_are_read(config: dict[str, Any]) -> None:
    assert Model.from_hf_config(config).layers == 32


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: str(config["model_type"]))
@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("sliding_window", "8", "sliding_window of the config must be a whole number from 0 .*, was '8'"),
        ("layer_types", 1, "layer_types of the config must be a list of texts, was 1"),
        ("layer_types", [1], r"layer_types of the config must be a list of texts, was \[1\]"),
        ("mlp_only_layers", 5, "mlp_only_layers of the config must be a list of whole numbers, was 5"),
        ("head_dim", 128.0, r"head_dim of the config must be a whole number from 0 .*, was 128\.0"),
        ("num_key_value_heads", "x" * 500, "num_key_value_heads of the config .*, was 'xxx.*\\.\\.\\.$"),
        ("n_shared_experts", [], r"n_shared_experts of the config must be a whole number .*, was \[\]"),
        ("hidden_size", 10**400, "hidden_size of the config must be a whole number from 0"),
        ("max_window_layers", -1, "max_window_layers of the config must be a whole number from 0 .*, was -1"),
        ("tie_word_embeddings", "no", "tie_word_embeddings of the config must be true or false, was 'no'"),
        ("torch_dtype", ["bfloat16"], r"torch_dtype of the config must be a text, was \['bfloat16'\]"),
        ("_name_or_path", 5, "_name_or_path of the config must be a text, was 5"),
        ("quantization_config", "fp8", "quantization_config of the config must be a JSON object, was 'fp8'"),
        ("model_type", ["llama"], r"model_type of the config must be one of .*, was \['llama'\]"),
    ],
)
def test_a_field_of_another_type_is_refused(
    config: dict[str, Any], field: str, value: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Model.from_hf_config({**config, field: value})


@pytest.mark.parametrize(
    "content", [b"[]", b"\xff", b"{", b"[" * 100_000, b'{"hidden_size": ' + b"9" * 5000 + b"}"]
)
def test_a_file_that_is_no_object_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ConfigError, match=r"config\.json must "):
        Model.from_hf_config(tmp_path)
