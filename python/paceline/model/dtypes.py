"""Bytes of numbers, as caches and as weights."""

from __future__ import annotations

__all__ = ["DTYPE_BYTES", "MATRIX_BYTES", "NORM_BYTES", "WEIGHT_BYTES"]

#: Bytes of a token's squares of queries and keys that ranks add up, where they norm all heads together.
NORM_BYTES = 8

#: Bytes of one number of activations and of the KV cache, by the name that configurations use.
DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}

#: Bytes of one weight with its share of the scales. ``fp8``: a 32-bit scale for each 128 x 128 weights
#: (DeepSeek-V3 report, arXiv:2412.19437, section 3.3). ``mxfp4``: an 8-bit scale for each 32 weights of 4
#: bits (OCP Microscaling Formats 1.0; "4.25 bits per parameter", gpt-oss model card). ``nvfp4``: one for each
#: 16 (``group_size`` of nvidia/DeepSeek-V3.1-NVFP4's ``hf_quant_config.json``).
WEIGHT_BYTES = {
    "bfloat16": 2.0,
    "float16": 2.0,
    "fp8": 1 + 4 / 128**2,
    "mxfp4": (4 + 8 / 32) / 8,
    "nvfp4": (4 + 8 / 16) / 8,
}

#: The same of any matrix: routers may have 32 bits.
MATRIX_BYTES = {**WEIGHT_BYTES, "float32": 4.0}
