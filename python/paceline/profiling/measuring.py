"""Running a plan on a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline.errors import ConfigError
from paceline.kernels import Curve, Grid, KernelProfile
from paceline.kernels.operators import mixed_grid
from paceline.model import Model
from paceline.profiling.backend import Backend
from paceline.profiling.plan import Axes, Place, plan
from paceline.profiling.work import Work

__all__ = ["Measured", "profile_model"]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
@typed_fields()
class Measured:
    """A profile, and the spread of its measurements.

    Parameters
    ----------
    profile
        Medians over repetitions.
    spread
        By place: half the distance between the repetitions' quartiles, over their median.
    """

    profile: KernelProfile
    spread: Mapping[Place, float]


@typed()
def profile_model(
    model: Model,
    backend: Backend,
    *,
    axes: Axes | None = None,
    tensor_parallel: int = 1,
    warmup: int = 3,
    repeat: int = 10,
    progress: Callable[[int, int], None] | None = None,
    now: datetime | None = None,
) -> Measured:
    """Measure the kernels of a model's shapes.

    Steps that prefill and decode are the sum of both kernels. Sizes with operands that do not fit into the
    device's memory are left out, and the number of these is in the facts.

    Parameters
    ----------
    model
        The model.
    backend
        The device.
    axes
        The sizes; None: up to 8,192 tokens, 256 requests and contexts of 16,384.
    tensor_parallel
        Ranks that the model is split over, of which one is measured.
    warmup, repeat
        Repetitions of each kernel before its measurement, and of it.
    progress
        Called with the number of measured kernels, and of all.
    now
        The time to record; None: the present.

    Returns
    -------
    Measured

    Raises
    ------
    ConfigError
        If the model cannot be profiled (:func:`~paceline.profiling.plan.plan`), a number is out of range, or
        nothing fits.
    """
    _check.count("repeat", repeat)
    _check.count("warmup", warmup, least=0)
    works = list(plan(model, axes or Axes(), tensor_parallel=tensor_parallel))
    size = model.kv_dtype_bytes(model.dtype)
    fitting = [(place, work) for place, work in works if size * work.numbers <= backend.memory_bytes]
    seconds: dict[Place, float] = {}
    spread: dict[Place, float] = {}
    done: dict[Work, tuple[float, float]] = {}
    for number, (place, work) in enumerate(fitting, start=1):
        if work not in done:  # layers of the same widths, as both norms
            times = np.asarray(backend.measure(work, dtype=model.dtype, warmup=warmup, repeat=repeat))
            quarter, middle, last = np.percentile(times, (25, 50, 75))
            done[work] = float(middle), float((last - quarter) / 2 / middle)
        seconds[place], spread[place] = done[work]
        if progress is not None:
            progress(number, len(fitting))
    facts = {
        "format": "paceline",
        "model": model.name,
        "dtype": model.dtype,
        "date": (now or datetime.now(UTC)).isoformat(timespec="seconds"),
        "warmup": str(warmup),
        "repeat": str(repeat),
        "spread": f"median {np.median(list(spread.values())):.4f}, largest {max(spread.values()):.4f}"
        if spread
        else "",
        "left_out": f"{len(works) - len(fitting)} of {len(works)} sizes, which exceed the memory",
        **backend.facts(),
    }
    return Measured(profile=_profile(model, seconds, tensor_parallel, facts), spread=spread)


def _profile(
    model: Model, seconds: Mapping[Place, float], ranks: int, facts: dict[str, str]
) -> KernelProfile:
    def curves(kernel: str) -> dict[str | int, Curve]:
        points: dict[str | int, list[tuple[int, float]]] = {}
        for place, time in seconds.items():
            if place[0] == kernel:
                points.setdefault(place[1], []).append((int(place[2]), time))
        return {key: Curve.of(pairs) for key, pairs in points.items()}

    attention = [(*map(int, place[1:]), time) for place, time in seconds.items() if place[0] == "attention"]
    decodes = [row for row in attention if not row[0]]
    prompts = [row for row in attention if row[0]]
    if not decodes or not prompts:
        raise ConfigError(f"attention of {model.name!r} must fit into the device's memory at the least size")
    decode, prefill = Grid.of(decodes), Grid.of(prompts)  # type: ignore[arg-type]  # four sizes and a time
    device = facts.get("gpu", "an unnamed device")
    return KernelProfile(
        name=f"{model.name} on {device}",
        source=f"paceline profile on {device}",
        dense={str(layer): curve for layer, curve in curves("dense").items()},
        per_sequence={str(layer): curve for layer, curve in curves("per_sequence").items()},
        experts={int(count): curve for count, curve in curves("experts").items()},
        decode=decode,
        prefill=prefill,
        mixed=mixed_grid(prefill, decode),
        tensor_parallel=ranks,
        facts=facts,
    )
