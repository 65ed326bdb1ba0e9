"""What of a language model its serving costs depend on: the shape of a decoder.

Modelled are decoders of the Llama family (attention with grouped queries, a gated MLP of three matrices,
norms, rotary positions) and what mixtures of experts add: routed and shared experts, dense layers before
them, latent attention (MLA), layers with a sliding window, 8-bit matrices and 4-bit experts. Of hybrid
models, layers with a state of constant size in place of a cache (Gated DeltaNet, Mamba-2), and layers that
are an MLP alone. Anything else is refused rather than approximated.
"""

from __future__ import annotations

from paceline.model.decoder import Model, model_names
from paceline.model.dtypes import DTYPE_BYTES, WEIGHT_BYTES
from paceline.model.experts import Experts
from paceline.model.latent import Latent
from paceline.model.recurrent import Recurrent
from paceline.model.stages import Stage, stages
from paceline.model.weights import Weights

__all__ = [
    "DTYPE_BYTES",
    "WEIGHT_BYTES",
    "Experts",
    "Latent",
    "Model",
    "Recurrent",
    "Stage",
    "Weights",
    "model_names",
    "stages",
]
