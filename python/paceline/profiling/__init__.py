"""Profiling: measure the kernels of a model's shapes on the device at hand.

:func:`profile_model` runs a :func:`plan` of :mod:`~paceline.profiling.work` on a :class:`Backend` and gives a
:class:`~paceline.kernels.KernelProfile`, with how far repetitions lay apart. The backend that measures is
:class:`~paceline.profiling.torch_backend.TorchBackend`, which needs PyTorch: the extra ``profile``.

What is measured is PyTorch's own kernels, not an engine's: cuBLAS's matrix multiplications, scaled
dot-product attention as PyTorch dispatches it, experts as batched products of even loads.
"""

from __future__ import annotations

from paceline.profiling.backend import Backend
from paceline.profiling.measuring import Measured, profile_model
from paceline.profiling.plan import Axes, plan

__all__ = ["Axes", "Backend", "Measured", "plan", "profile_model"]
