"""Options of `paceline calibrate --host`: the server whose runs were measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

if TYPE_CHECKING:
    from paceline import Cluster
    from paceline.policy import Policy

__all__ = ["HostOptions"]

_GROUP = Group("Server", sort_key=6)


@Parameter(group=_GROUP)
@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """The server of the runs.

    Parameters
    ----------
    server_version
        Its engine and version, under which the fit is kept: vllm-0.23.0 or sglang-0.5.9.
    profile
        Measured kernels to replay with, such as aisimulate/h100_sxm/vllm/0.24.0; by default the GPU's
        roofline.
    blocks
        KV blocks; by default as memory allows.
    max_num_seqs
        The most running requests; by default the engine's.
    max_num_batched_tokens
        Tokens of a step; by default the engine's.
    """

    server_version: str = "vllm-0.23.0"
    profile: Annotated[str | None, Parameter(show_default=False)] = None
    blocks: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None

    def server(
        self, file: Path, *, model: str | None, gpu: str | None, tensor_parallel: int | None
    ) -> tuple[Cluster, Policy]:
        """Return the cluster and the policy; the model is the file's unless another is given.

        Raises
        ------
        ConfigError
            If no GPU is given, or the engine is neither vLLM nor SGLang.
        """
        from paceline import Cluster, Instance
        from paceline.benchmarks import read_benches
        from paceline.cost import Roofline
        from paceline.errors import ConfigError
        from paceline.kernels import Table
        from paceline.policies.sglang import sglang
        from paceline.policies.vllm import vllm
        from paceline.validation.prediction import decides_ahead
        from paceline.validation.resolving import find_model

        if gpu is None:
            raise ConfigError("gpu must be a name of the catalog, such as h100-sxm, was not given")
        engine, _, version = self.server_version.partition("-")
        if engine == "vllm":
            policy = vllm(
                max_num_seqs=self.max_num_seqs,
                max_num_batched_tokens=self.max_num_batched_tokens,
                async_scheduling=decides_ahead(version),
            )
        elif engine == "sglang":
            policy = sglang(
                max_running_requests=self.max_num_seqs or 2048,
                chunked_prefill_size=self.max_num_batched_tokens or 8192,
                overlap_schedule=True,
            )
        else:
            raise ConfigError(
                f"server_version must be of vllm or sglang, vllm-0.23.0, was {self.server_version!r}"
            )
        instance = Instance(
            model=model or find_model(read_benches(file)[0].model or ""),
            gpu=gpu,
            tensor_parallel=tensor_parallel or 1,
            num_blocks=self.blocks,
            max_model_len="auto",
            cost=Roofline() if self.profile is None else Table(profile=self.profile),
        )
        return Cluster([instance]), policy
