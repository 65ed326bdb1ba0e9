"""Host times of engines by version: the front end, and what a step takes beyond its kernels.

The GPU's kernels do not explain all of a step: where an engine does not overlap its scheduler, its inputs and
its sampler with the step before, a step takes ``a + b * running`` longer. Both differ by engine, version and
flags, and constants that help one version make another worse. So a host is data of the versions that it was
measured on, chosen by name; nothing is applied unless it is asked for.
"""

from __future__ import annotations

import functools
import re
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path

from paceline import _check, catalog
from paceline._arguments import typed, typed_fields
from paceline._atomic import new_file
from paceline._toml import build, dump, parse
from paceline.cost import Affine, Roofline
from paceline.deployment import Cluster, Instance
from paceline.errors import ConfigError
from paceline.kernels.loaded import is_table
from paceline.trace.opening import content

__all__ = ["EngineHost", "host_names", "version_key"]

_NAME = re.compile(r"(?P<engine>[a-z]+)-(?P<version>\d[\w.]*)")


def host_names() -> tuple[str, ...]:
    """Return the names of the hosts that come with Paceline.

    Examples
    --------
    >>> [name for name in host_names() if name.startswith("vllm")]
    ['vllm-0.11', 'vllm-0.12', 'vllm-0.23', 'vllm-0.23-shipped', 'vllm-0.8']
    """
    return catalog.names("host")


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class EngineHost:
    """The host times of an engine's versions.

    Parameters
    ----------
    name
        Its name: an engine and its last version.
    engine
        ``vllm``, ``sglang`` or ``trtllm``.
    first, last
        The versions from and up to which it holds, both included: ``0.15`` to ``0.23`` holds for 0.23.0, too.
    frontend_s
        Seconds from a request's arrival until the scheduler sees it.
    frontend_token_s
        The same for each token of its prompt: the tokenizer. Every request of a replay takes that of the mean
        prompt.
    step_s
        Seconds of each step that no kernel explains.
    request_s
        Seconds of each step for each request that runs in it.
    prompt_step_s
        Seconds that a step with prompt tokens takes at least.
    latent_layer_s
        Seconds to launch a layer with latent attention (MLA) of a step with prompt tokens, if these are not
        in CUDA graphs: the step takes at least as long as all launches.
    flags
        The flags of the servers on which it was measured.
    kernels
        The kernels beside which alone it holds: ``shipped``, those that come with Paceline; empty:
        AISimulate's, and others. A front end that is read off a run holds what the kernels lack.
    source
        What it was fitted to.
    spread
        How far the constants, or errors on runs that were kept back, spread.

    Raises
    ------
    ConfigError
        If a time is negative.

    Examples
    --------
    >>> EngineHost.load("vllm-0.23").frontend_s
    0.006
    >>> EngineHost.load("vllm-0.19").name    # a version in between
    'vllm-0.23'
    """

    name: str
    engine: str
    first: str
    last: str
    frontend_s: float = 0.0
    frontend_token_s: float = 0.0
    step_s: float = 0.0
    request_s: float = 0.0
    prompt_step_s: float = 0.0
    latent_layer_s: float = 0.0
    flags: str = ""
    kernels: str = ""
    source: str = ""
    spread: str = ""

    def __post_init__(self) -> None:
        front = ("frontend_s", "frontend_token_s")
        for field in (*front, "step_s", "request_s", "prompt_step_s", "latent_layer_s"):
            _check.seconds(f"{field} of host {self.name!r}", getattr(self, field))

    @classmethod
    @typed()
    def load(cls, name: str) -> EngineHost:
        """Return a host that comes with Paceline, by its name or by an engine and a version of its range.

        A name that ends with ``.toml`` is a file, as `write` makes it.

        Raises
        ------
        ConfigError
            If there is none for that engine and version; the message names those that there are. Or the file
            cannot be read.
        """
        if name.endswith(".toml"):
            return _read(Path(name))
        if name in host_names():
            return _loaded(name)
        found = _NAME.fullmatch(name)
        host = None if found is None else cls.of(found["engine"], found["version"])
        if host is None:
            known = ", ".join(f"{one} ({_loaded(one).first} to {_loaded(one).last})" for one in host_names())
            raise ConfigError(f"host must be one that was measured, {known}, was {name!r}")
        return host

    @classmethod
    @typed()
    def of(cls, engine: str, version: str, *, kernels: str = "") -> EngineHost | None:
        """Return the host that holds for an engine's version; None if none was measured.

        One that was fitted beside the same ``kernels`` comes first, then the one that begins last.

        Examples
        --------
        >>> EngineHost.of("vllm", "0.12.0").step_s, EngineHost.of("vllm", "0.14.1")
        (0.0011, None)
        """
        hosts = [host for host in map(_loaded, host_names()) if host.engine == engine]
        hosts.sort(key=lambda host: version_key(host.first), reverse=True)
        for beside in dict.fromkeys((kernels, "")):
            for host in hosts:
                if host.kernels == beside and host.holds_for(version):
                    return host
        return None

    @classmethod
    @typed()
    def newest(cls, engine: str) -> EngineHost | None:
        """Return the host of an engine's newest versions; None if none was measured.

        Examples
        --------
        >>> EngineHost.newest("vllm").name, EngineHost.newest("orca")
        ('vllm-0.23', None)
        """
        hosts = [h for h in map(_loaded, host_names()) if h.engine == engine and not h.kernels]
        return max(hosts, key=lambda host: version_key(host.last), default=None)

    @classmethod
    @typed()
    def named(cls, name: str) -> EngineHost:
        """Return a host without times, of one version.

        Raises
        ------
        ConfigError
            If the name is not an engine and a version.

        Examples
        --------
        >>> EngineHost.named("vllm-0.23.0").first
        '0.23.0'
        """
        found = _NAME.fullmatch(name)
        if found is None:
            raise ConfigError(f"name of a host must be an engine and a version, vllm-0.23.0, was {name!r}")
        version = found["version"]
        return cls(name=name, engine=found["engine"], first=version, last=version)

    @typed()
    def write(self, path: str | PathLike[str]) -> None:
        """Write the host as a TOML file, whole or not at all.

        Examples
        --------
        >>> import tempfile
        >>> from dataclasses import replace
        >>> mine = replace(EngineHost.named("vllm-0.23.0"), frontend_s=0.012)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     mine.write(f"{folder}/mine.toml")
        ...     EngineHost.load(f"{folder}/mine.toml").frontend_s
        0.012
        """
        given = {name: value for name, value in asdict(self).items() if value not in ("", 0.0)}
        with new_file(Path(path)) as draft:
            draft.write_text(dump(given), encoding="utf-8")

    @typed()
    def holds_for(self, version: str) -> bool:
        """Whether a version is in the range; patch releases of the last version are.

        Examples
        --------
        >>> host = EngineHost.load("vllm-0.23")
        >>> [host.holds_for(version) for version in ("0.14.9", "0.15.1", "0.23.2", "0.24")]
        [False, True, True, False]
        """
        key, last = version_key(version), version_key(self.last)
        return bool(key) and version_key(self.first) <= key and key[: len(last)] <= last

    @typed()
    def on(self, cluster: Cluster, *, prompt_tokens: float = 0.0) -> Cluster:
        """Return a cluster whose steps and requests take these times, too.

        Parameters
        ----------
        cluster
            The cluster.
        prompt_tokens
            The mean prompt, of which every request takes the front end's time.

        Raises
        ------
        ConfigError
            If the cluster has a front end already, which would be counted twice; or a cost is an Affine,
            which has no time for each request.
        """
        _check.not_negative("prompt_tokens", prompt_tokens)
        front = self.frontend_s + prompt_tokens * self.frontend_token_s
        if cluster.frontend_s and front:
            raise ConfigError(
                f"frontend_s of a Cluster must be 0 beside the host {self.name!r}, which has "
                f"{front} s, was {cluster.frontend_s}"
            )
        distinct = {one: self._beside(one) for one in dict.fromkeys(cluster.instances)}
        return replace(
            cluster,
            instances=tuple(distinct[one] for one in cluster.instances),
            frontend_s=cluster.frontend_s or front,
        )

    def _beside(self, instance: Instance) -> Instance:
        """Return an instance whose steps take the host's time, too, and have the larger least time."""
        model = instance.resolved_model if self.latent_layer_s else None
        layers = 0 if model is None or model.latent is None else model.layers
        floor = max(instance.prompt_step_s, self.prompt_step_s, layers * self.latent_layer_s)
        instance = replace(instance, prompt_step_s=floor) if floor != instance.prompt_step_s else instance
        if not (self.step_s or self.request_s):
            return instance
        cost = instance.cost
        if isinstance(cost, Affine):
            if self.request_s:
                raise ConfigError(
                    f"cost of an Instance must be a Roofline or a Table with the host {self.name!r}, which "
                    f"has a time for each request, was {cost}"
                )
            return replace(instance, cost=replace(cost, step_s=cost.step_s + self.step_s))
        if is_table(cost):
            model, ranks = instance.resolved_model, instance.tensor_parallel
            kernels = cost.step_overhead_s(cost.read(model, tensor_parallel=ranks))
            return replace(
                instance,
                cost=replace(cost, overhead_s=kernels + self.step_s, row_s=cost.row_s + self.request_s),
            )
        return replace(instance, cost=self._roofline(instance, cost or Roofline()))

    def _roofline(self, instance: Instance, cost: Roofline) -> Roofline:
        """Return a roofline with the host's time; a request's is spread over the layers with attention."""
        model, gpu = instance.resolved_model, instance.resolved_gpu
        known = cost.efficiency or (None if gpu is None else gpu.efficiency)
        assert model is not None, "Invariant: an instance with a roofline has a model"
        assert known is not None, "Invariant: an instance with a roofline has efficiencies"
        return replace(
            cost,
            efficiency=replace(
                known,
                step_s=known.step_s + self.step_s,
                attention_request_s=known.attention_request_s + self.request_s / model.attention_layers,
            ),
        )


def _read(path: Path) -> EngineHost:
    """Return the host of a file; its name is the file's unless it says another."""
    what = f"host {path}"
    text = content(path, error=ConfigError).decode("utf-8", errors="replace")
    return build(EngineHost, {"name": path.stem, **parse(text, what)}, what)


@functools.cache
def _loaded(name: str) -> EngineHost:
    return build(EngineHost, {"name": name, **catalog.load("host", name)}, f"host {name!r}")


@typed()
def version_key(version: str) -> tuple[int, ...]:
    """Return what versions are ordered by: their numbers, those of a release candidate among them.

    Examples
    --------
    >>> version_key("1.0.0rc3"), version_key("0.5.9.post1"), version_key("nightly")
    ((1, 0, 0, 3), (0, 5, 9, 1), ())
    """
    if not version[:1].isdigit():
        return ()
    return tuple(int(part) for part in re.findall(r"\d+", version))
