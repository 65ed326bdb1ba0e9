"""Models, GPUs and types of weights by the names that measured data have."""

from __future__ import annotations

import re
from dataclasses import replace

from paceline.errors import ConfigError
from paceline.model import Model
from paceline.validation.points.refusals import NotModelled
from paceline.validation.resolving import find_model

__all__ = ["engine_version", "gpu_of", "model_of", "trtllm_version"]

#: Models of the same shape as one of the catalog, by what is left of their names.
_SAME_SHAPE = {
    "llama-3.3-70b": "llama-3.1-70b",
    "deepseek-v3.1": "deepseek-v3",
    "nvidia-nemotron-nano-9b-v2": "nemotron-nano-9b-v2",
}
_GPUS = {
    "h100": "h100-sxm",
    "h100_sxm": "h100-sxm",
    "h200": "h200",
    "h200_sxm": "h200",
    "b200": "b200",
    "b200_sxm": "b200",
    "gb200": "gb200",
    "b300": "b300",
    "b300_sxm": "b300",
    "gb300": "gb300",
    "a100": "a100-80gb",
}
#: What published checkpoints in NVFP4 quantise, by their ``hf_quant_config.json``: types of all matrices, of
#: attention's and of its output projection. nvidia/DeepSeek-R1-0528-FP4-V2 (InferenceX's scripts) and
#: DeepSeek-V3.1-NVFP4 leave out attention's projections but the last, nvidia/MiniMax-M2.5-NVFP4 all of them.
_NVFP4 = {
    "deepseek-r1": ("nvfp4", "bfloat16", "nvfp4"),
    "deepseek-v3": ("nvfp4", "bfloat16", "nvfp4"),
    "minimax-m2.5": ("nvfp4", "bfloat16", "auto"),
}
_PLAIN = (None, "", "bf16", "bfloat16", "fp16", "float16", "w16a16")


def gpu_of(name: str) -> str:
    """Return the catalog's GPU.

    Raises
    ------
    NotModelled
        If the catalog does not have it.
    """
    found = _GPUS.get(name.lower())
    if found is None:
        raise NotModelled(f"the GPU {name} is not in the catalog")
    return found


def model_of(name: str, precision: str | None) -> tuple[Model, str]:
    """Return the catalog's model with its types of weights, and what groups call these.

    float16 counts as bfloat16: kernels of both take the same time, and tables have one of them.

    Raises
    ------
    NotModelled
        If the catalog does not have the model, or its weights are of a type that is not modelled.
    """
    plain = name.rstrip("/").rsplit("/", maxsplit=1)[-1].lower()
    plain = re.sub(r"-(nvfp4|fp4(-v2)?|fp8|thinking|instruct|\d{4})(?=-|$)", "", plain)
    try:
        model = find_model(_SAME_SHAPE.get(plain, plain))
    except ConfigError as error:
        raise NotModelled(f"the model {plain} is not in the catalog") from error
    if model.dtype == "float16":
        model = replace(model, dtype="bfloat16")
    kind = precision.lower() if precision is not None else None
    four_bits = model.experts is not None and model.experts.dtype == "mxfp4"
    if kind in ("fp4", "nvfp4", "mxfp4"):
        if four_bits:
            return model, "mxfp4"
        if model.name not in _NVFP4:
            raise NotModelled(f"NVFP4 weights, of which {model.name}'s checkpoint is not known")
        weights, attention, output = _NVFP4[model.name]
        return replace(model, weight_dtype=weights, attention_dtype=attention, output_dtype=output), "nvfp4"
    if kind in ("fp8", "fp8_block"):
        if four_bits:
            raise NotModelled("MXFP4 experts beside matrices in FP8")
        return (model if model.weight_dtype == "fp8" else replace(model, weight_dtype="fp8")), "fp8"
    if kind in _PLAIN:
        if four_bits or model.weight_dtype == "fp8":
            return model, "mxfp4" if four_bits else "fp8"
        return model, "bf16"
    raise NotModelled(f"weights in {precision}")


#: TensorRT-LLM in Dynamo's images, whose tags have Dynamo's version (docs.nvidia.com/dynamo, support matrix).
_IN_DYNAMO = {f"0.8.1.post{patch}": f"1.2.0rc6.post{patch}" for patch in (1, 2, 3)}


def trtllm_version(version: str) -> str:
    """Return a version of TensorRT-LLM, of Dynamo's where that is named; empty if it is not known.

    Examples
    --------
    >>> trtllm_version("0.8.1.post2"), trtllm_version("1.2.0rc2"), trtllm_version("0.5.1-rc0.pre3")
    ('1.2.0rc6.post2', '1.2.0rc2', '')
    """
    return _IN_DYNAMO.get(version, "" if version.startswith("0.") else version)


def engine_version(image: str | None) -> str:
    """Return the version that an image's tag has; empty if it has none.

    Examples
    --------
    >>> engine_version("lmsysorg/sglang:v0.5.8.post1-cu130-amd64"), engine_version("vllm:nightly")
    ('0.5.8.post1', '')
    """
    found = re.search(r":v?(\d+\.\d+\.\d+\w*(?:\.post\d+)?)", image or "")
    return found[1] if found else ""
