"""Options of what it costs to predict the length of each output before it is routed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cyclopts import Parameter

from paceline.cli.options import POLICY

if TYPE_CHECKING:
    from paceline.deployment import Cluster
    from paceline.prediction import Prediction

__all__ = ["NO_PREDICTION", "PredictionOptions"]


@Parameter(name="*", group=POLICY)
@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionOptions:
    """The time of predictions.

    Parameters
    ----------
    prediction_ms
        Milliseconds that it takes to predict the length of a request, before it reaches the router.
    prediction_batch
        Predict serially, at most this many prompts at once; without it all prompts in parallel.
    prediction_batch_ms
        Milliseconds for a batch of predictions, whatever its size, beside those for each prompt.
    """

    prediction_ms: float | None = None
    prediction_batch: int | None = None
    prediction_batch_ms: float | None = None

    def prediction(self) -> Prediction | None:
        """Return what the options describe; None if predictions cost nothing.

        Raises
        ------
        ConfigError
            If options of batches are given without the time of a prompt, or one is out of range.
        """
        from paceline.errors import ConfigError
        from paceline.prediction import Prediction

        ms, batch, batch_ms = self.prediction_ms, self.prediction_batch, self.prediction_batch_ms
        if ms is None:
            for name, value in (("--prediction-batch", batch), ("--prediction-batch-ms", batch_ms)):
                if value is not None:
                    raise ConfigError(f"{name} needs --prediction-ms, the time of a prompt; none was given")
            return None
        return Prediction(
            seconds=ms / 1e3,
            batch=1 if batch is None else batch,
            where="parallel" if batch is None else "serial",
            batch_seconds=0.0 if batch_ms is None else batch_ms / 1e3,
        )

    def of(self, cluster: Cluster) -> Cluster:
        """Return a cluster with the prediction that the options describe; if none, with its own."""
        found = self.prediction()
        return cluster if found is None else replace(cluster, prediction=found)


NO_PREDICTION = PredictionOptions()
