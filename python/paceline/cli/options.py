"""Options that several commands have: the instance and the cluster, the policy, and how a trace is read.

A command takes them as parameters of these classes; cyclopts makes an option of each field. Words that the
command line alone uses become arguments of the Python API here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, get_type_hints

from cyclopts import Group, Parameter

from paceline.cli.candidates import gpu_names, model_names, policy_names

if TYPE_CHECKING:
    from paceline.deployment import Cluster, Instance, Links
    from paceline.hardware import Gpu
    from paceline.limits import Limits
    from paceline.policy import Policy
    from paceline.trace import Trace

__all__ = [
    "CLUSTER",
    "DEFAULT_CLUSTER",
    "DEFAULT_INSTANCE",
    "DEFAULT_POLICY",
    "DEFAULT_READING",
    "LOAD",
    "OBJECTIVES",
    "OUTPUT",
    "POLICY",
    "SEARCH",
    "ClusterOptions",
    "Flag",
    "InstanceOptions",
    "PolicyOptions",
    "ReadingOptions",
    "Warmup",
    "layers_of",
    "seconds_of",
    "warmup_of",
]

CLUSTER = Group("Cluster", sort_key=1)
POLICY = Group("Policy", sort_key=2)
LOAD = Group("Load", sort_key=3)
OBJECTIVES = Group("Objectives", sort_key=4)
SEARCH = Group("Search", sort_key=5)
OUTPUT = Group("Output", sort_key=6)

Flag: TypeAlias = Annotated[bool, Parameter(negative="", show_default=False)]
"""An option without a value."""

Routing = Literal["round-robin", "fewest-requests", "fewest-tokens"]


@Parameter(name="*", group=CLUSTER)
@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceOptions:
    """What an instance is.

    Parameters
    ----------
    file
        The cluster as a TOML file, instead of the other options: instances of any kinds, links, lockstep.
    model
        Model of every instance: a name from `paceline models`, or a Hugging Face config.json.
    gpu
        GPU of every instance: a name from `paceline gpus`, or a FILE.toml with one's own (its fields are
        those of `paceline.Gpu`).
    tp
        GPUs of a stage, over which each layer is split (tensor parallelism).
    pp
        Stages of an instance (pipeline parallelism). The policy says whether each has a batch.
    profile
        Measured kernels to take step times from, instead of a roofline: a name from `paceline profiles list`,
        or a path.
    num_blocks
        KV blocks of an instance as vLLM logs them; computed from memory if not given.
    max_model_len
        Longest sequence that is not rejected, in tokens: by default the model's; auto: what fits.
    kv_dtype
        Type of the KV cache's numbers: fp8 halves what a token takes; auto: the model's.
    gpu_memory_utilization
        Share of a GPU's memory that the engine may use; 0.92, vLLM's, if not given.
    link_gbps
        Gigabits per second of an instance's link, each way, for migrations; they take no time if not given.
    """

    file: Annotated[Path | None, Parameter(name="--cluster")] = None
    model: Annotated[str | None, Parameter(completer=model_names)] = None
    gpu: Annotated[str | None, Parameter(completer=gpu_names)] = None
    tp: int = 1
    pp: int = 1
    profile: str | None = None
    num_blocks: int | None = None
    max_model_len: int | Literal["auto"] | None = None
    kv_dtype: Literal["auto", "fp8", "bfloat16", "float16"] = "auto"
    gpu_memory_utilization: float | None = None
    link_gbps: float | None = None

    def instance(self) -> Instance:
        """Return the instance that the options describe."""
        from paceline.deployment import Instance
        from paceline.errors import ConfigError
        from paceline.model import Model

        if self.model is None or self.gpu is None:
            lacking = "--model" if self.model is None else "--gpu"
            listed = f"as listed by `paceline {lacking[2:]}s`"
            raise ConfigError(f"{lacking} must be given, {listed}; or --cluster FILE.toml")
        cost = None
        if self.profile is not None:
            from paceline.kernels import Table

            cost = Table(profile=self.profile)
        shape = Model.from_hf_config(self.model) if Path(self.model).exists() else self.model
        memory = self.gpu_memory_utilization
        share: dict[str, Any] = {} if memory is None else {"gpu_memory_utilization": memory}
        return Instance(
            model=shape,
            gpu=_gpu(self.gpu),
            kv_dtype=self.kv_dtype,
            **share,
            tensor_parallel=self.tp,
            pipeline_parallel=self.pp,
            num_blocks=self.num_blocks,
            max_model_len=self.max_model_len,
            cost=cost,
        )

    def changed(self, words: str) -> InstanceOptions:
        """Return the options with some changed, as ``gpu=a100-80gb,tp=2``.

        Raises
        ------
        ConfigError
            If a word is not ``NAME=VALUE``, or names no option that can differ.
        """
        from paceline.cli.typed_value import typed_value
        from paceline.errors import ConfigError

        hints = get_type_hints(InstanceOptions)
        names = [name for name in hints if name not in ("link_gbps", "file")]
        changes = {}
        for word in words.split(","):
            name, _, text = (part.strip() for part in word.partition("="))
            name = name.replace("-", "_")
            if name not in names or name in changes or not text:
                known = ", ".join(name.replace("_", "-") for name in names)
                raise ConfigError(f"--also must be NAME=VALUE,… with names of {known}, was {words!r}")
            changes[name] = typed_value(text, hints[name], f"--also {name}")
        return replace(self, **changes)

    def links(self) -> Links | None:
        """Return the network between instances."""
        from paceline.deployment import Links

        read = self.read()
        if read is not None:
            return read.links
        return None if self.link_gbps is None else Links(gbps=self.link_gbps)

    def kinds(self) -> list[Instance]:
        """Return the instance that the options describe, or the distinct ones of the cluster's file."""
        read = self.read()
        return [self.instance()] if read is None else list(dict.fromkeys(read.instances))

    def read(self) -> Cluster | None:
        """Return the cluster of the file; None if there is none.

        Raises
        ------
        ConfigError
            If an option that describes an instance is given beside the file, or the file cannot be used.
        """
        from paceline._documents import read_document
        from paceline.deployment import Cluster
        from paceline.errors import ConfigError

        if self.file is None:
            return None
        for each in fields(self):
            if each.name != "file" and getattr(self, each.name) != each.default:
                option = f"--{each.name.replace('_', '-')}"
                raise ConfigError(f"{self.file} says all about the cluster; write there what {option} says")
        text = read_document(self.file)
        try:
            return Cluster.from_toml(text)
        except ConfigError as error:
            raise ConfigError(f"{self.file}: {error}") from error


@Parameter(name="*", group=CLUSTER)
@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions(InstanceOptions):
    """What a cluster is: equal instances.

    Parameters
    ----------
    instances
        Replicas of the model.
    """

    instances: int = 1

    def cluster(self) -> Cluster:
        """Return the cluster that the options describe."""
        from paceline.deployment import Cluster
        from paceline.errors import ConfigError

        read = self.read()
        if read is not None:
            return read
        if self.instances < 1:
            raise ConfigError(f"--instances must be at least 1, was {self.instances}")
        return Cluster(self.instances * [self.instance()], self.links())


@Parameter(name="*", group=POLICY)
@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """What the policy is.

    Parameters
    ----------
    policy
        Scheduler of an instance: a name from `paceline policies`, or a policy's FILE.toml.
    routing
        How an arrival is routed to an instance; fewest-requests if not given.
    prefix_caching
        Keep KV blocks for later requests with the same prefix, as the trace says.
    max_num_batched_tokens
        Tokens of one step; the policy's default if not given.
    max_num_seqs
        Running requests of an instance; the policy's default if not given.
    long_prefill_token_threshold
        The most tokens of one prefill in a step; no limit if not given.
    settings
        A parameter of the policy as NAME=VALUE, as listed by `paceline policies`; may be repeated.
    """

    policy: Annotated[str, Parameter(completer=policy_names)] = "vllm"
    routing: Routing | None = None
    prefix_caching: Flag = False
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    long_prefill_token_threshold: int | None = None
    settings: Annotated[tuple[str, ...], Parameter(name="--set", negative="", show_default=False)] = ()

    def choose(self, layers: int | None) -> Policy:
        """Return the policy that the options describe, for a model of so many layers."""
        from paceline.cli.policy_choice import choose

        return choose(self.policy, self._given(), self.settings, layers=layers)

    def factory(self, layers: int | None, counts: tuple[str, ...]) -> Callable[..., Policy]:
        """Return a function that makes the policy from parameters given later, as keywords.

        Parameters
        ----------
        layers
            Layers of the model.
        counts
            The names of those parameters.

        Raises
        ------
        PolicyError
            If one of them is also given by ``--set``.
        """
        from paceline.cli.policy_choice import choose, split_setting
        from paceline.errors import PolicyError

        for setting in self.settings:
            name, _ = split_setting(setting)
            if name in counts:
                raise PolicyError(f"--set {setting}: {name} is searched, and cannot be set")

        def make(**numbers: int) -> Policy:
            settings = [*self.settings, *(f"{name}={number}" for name, number in numbers.items())]
            return choose(self.policy, self._given(), settings, layers=layers)

        return make

    def _given(self) -> dict[str, object]:
        return {
            "routing": self.routing and self.routing.replace("-", "_"),
            "prefix_caching": self.prefix_caching or None,
            "max_num_batched_tokens": self.max_num_batched_tokens,
            "max_num_seqs": self.max_num_seqs,
            "long_prefill_token_threshold": self.long_prefill_token_threshold,
        }


@Parameter(name="*", group=LOAD)
@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingOptions:
    """How a trace is read.

    Parameters
    ----------
    on_empty_output
        What to do with requests that have no output.
    format
        The trace's format, if its content does not say it: mooncake-delta and timed_trace.
    unit
        The unit of the trace's stamps, if it is not the format's own.
    block_tokens
        Prompt tokens of one prefix id, if they are not as the format has them.
    arrivals
        Whether requests arrive at their stamps (recorded), or wait for the answer that they followed
        (dependent). If it is left out: recorded, if all rows have a stamp.
    limit
        A bound on reading the trace as NAME=VALUE: file_bytes, values, columns, line_bytes; may be repeated.
    """

    on_empty_output: Literal["drop", "error"] = "drop"
    format: str | None = None
    unit: Literal["s", "ms", "us", "ns"] | None = None
    block_tokens: int | None = None
    arrivals: Literal["recorded", "dependent"] | None = None
    limit: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = ()

    def limits(self) -> Limits:
        """Return the bounds on reading."""
        from paceline.limits import Limits

        return Limits.current().changed(self.limit)

    def read(self, path: Path) -> Trace:
        """Read a trace; Ctrl-C stops it at once."""
        from paceline.cli.interrupt import interruptible
        from paceline.trace import read_trace

        limits = self.limits()
        return interruptible(lambda: read_trace(path, limits=limits, **self.choices()))

    def choices(self) -> dict[str, Any]:
        """Return the options of `paceline.read_trace` and of a run's trace, by name."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "limit"}


DEFAULT_CLUSTER = ClusterOptions()
DEFAULT_INSTANCE = InstanceOptions()
DEFAULT_POLICY = PolicyOptions()
DEFAULT_READING = ReadingOptions()


def _gpu(words: str) -> str | Gpu:
    """Return the GPU of a file, named as the file if it has no name; the words if they are a name."""
    if not words.endswith(".toml"):
        return words
    from paceline._documents import read_document
    from paceline._toml import parse
    from paceline.errors import ConfigError
    from paceline.hardware import gpu_from_table

    path = Path(words)
    content = parse(read_document(path), words)
    try:
        return gpu_from_table({"name": path.stem, **content}, "the GPU")
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def layers_of(instance: Instance) -> int | None:
    """Return the layers of an instance's model; None without a model."""
    shape = instance.resolved_model
    return None if shape is None else shape.layers


_PER_SECOND: Final = {"ms": 1e3, "us": 1e6, "µs": 1e6, "μs": 1e6, "s": 1.0}


Warmup: TypeAlias = Annotated[str | None, Parameter(name=("--warmup", "--warmup-s"), group=OBJECTIVES)]
"""The time of which arrivals are not judged."""


def warmup_of(text: str | None) -> float:
    """Return the seconds of the warm-up; 0 without one."""
    return 0.0 if text is None else seconds_of(text, "--warmup")


def seconds_of(text: str, what: str) -> float:
    """Return a time in seconds: a number with the unit s, ms or us, or a number of seconds.

    Parameters
    ----------
    text
        The words.
    what
        The name of the option, for errors.

    Raises
    ------
    ConfigError
        If it is none.

    Examples
    --------
    >>> seconds_of("40ms", "--slo tpot"), seconds_of("1.5 s", "--warmup"), seconds_of("2", "--warmup")
    (0.04, 1.5, 2.0)
    """
    from paceline.errors import ConfigError

    unit = next((unit for unit in _PER_SECOND if text.endswith(unit)), "")
    try:
        # A quotient, as 40 / 1000 is 0.04 and 40 * 0.001 is not always.
        return float(text.removesuffix(unit)) / _PER_SECOND.get(unit, 1.0)
    except ValueError:
        raise ConfigError(
            f"{what} must be a time in s, ms or us, or in seconds, such as 500ms or 0.5, was {text!r}"
        ) from None
