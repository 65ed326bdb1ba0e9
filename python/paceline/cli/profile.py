"""`paceline profile`: measure the kernels of a model's shapes on the device at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

__all__ = ["profile"]


def profile(
    model: str,
    /,
    *,
    out: Path,
    tp: int = 1,
    device: str | None = None,
    attention: Literal["auto", "torch", "vllm"] = "auto",
    max_tokens: int = 8192,
    max_requests: int = 256,
    max_context: int = 16384,
    warmup: int = 3,
    repeat: int = 10,
    quiet: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> None:
    """Measure the kernels of a model's shapes with PyTorch, and write them as a profile.

    Parameters
    ----------
    model
        A name from `paceline models`, or a Hugging Face config.json.
    out
        The file to write, in our Parquet format, as `paceline profiles import` and --profile take it.
    tp
        GPUs that the model is split over, of which one rank is measured.
    device
        As PyTorch calls it; by default the first CUDA device, else the CPU.
    attention
        Whose attention kernels: vLLM's FlashAttention 3, PyTorch's, or vLLM's where they are installed and
        run.
    max_tokens
        The most tokens of a step.
    max_requests
        The most requests of a step.
    max_context
        The longest context.
    warmup
        Repetitions of each kernel that are not counted.
    repeat
        Repetitions that are.
    quiet
        Print nothing to standard error but errors.
    """
    import sys

    from paceline.cli.output import console, note
    from paceline.kernels import write_parquet
    from paceline.model import Model
    from paceline.profiling import Axes, profile_model
    from paceline.profiling.torch_backend import TorchBackend

    shape = Model.from_hf_config(model) if Path(model).exists() else Model.load(model)
    axes = Axes(tokens=max_tokens, requests=max_requests, context=max_context)

    def tell(done: int, of: int) -> None:
        if not quiet and sys.stderr.isatty() and (done % 25 == 0 or done == of):
            note(f"{done:,} of {of:,} kernels")

    measured = profile_model(
        shape,
        TorchBackend(device, attention=attention),
        axes=axes,
        tensor_parallel=tp,
        warmup=warmup,
        repeat=repeat,
        progress=tell,
    )
    write_parquet(measured.profile, out, spread=measured.spread)
    facts = measured.profile.facts
    console().print(f"{measured.profile.name}: {len(measured.spread):,} points, {facts['left_out']}")
    console().print(f"spread of the repetitions: {facts['spread']}")
