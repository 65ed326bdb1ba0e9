"""A run: all that one replay depends on, as values and as a TOML file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from paceline import _check, _toml
from paceline._arguments import typed, typed_fields
from paceline._documents import read_document
from paceline.concurrency import Concurrency
from paceline.deployment import Cluster
from paceline.errors import ConfigError
from paceline.limits import Limits
from paceline.policies.vllm import vllm
from paceline.policy import Pace, Policy
from paceline.replaying import checked_for_scan, replay, settings_kept
from paceline.result import Result
from paceline.result.output import Output
from paceline.runs.parts import cluster_from, included, policy_from
from paceline.runs.recipe import Recipe
from paceline.sampling import Sample
from paceline.trace import Trace, scan_trace

if TYPE_CHECKING:
    from paceline._core import Progress

__all__ = ["Run", "Settings", "read_run"]


_OBJECTS: Final = ("clients", "pace")
"""Settings that are tables of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Settings:
    """The other arguments of `paceline.replay`.

    Parameters
    ----------
    until, leap, clients, pace, record
        As of `paceline.replay`.
    sample, sample_tenants
        The ``every`` and ``tenants`` of a `paceline.Sample`.
    """

    until: float | None = None
    leap: bool = True
    clients: Concurrency | None = field(default=None, metadata={"table": Concurrency})
    pace: Pace | None = field(default=None, metadata={"table": Pace})
    sample: float | int | None = None
    sample_tenants: bool = False
    record: tuple[float, float] | None = None

    def to_table(self) -> dict[str, Any]:
        """Return the settings that differ from the defaults, as a TOML table."""
        plain = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name not in _OBJECTS and getattr(self, each.name) != each.default
        }
        objects = {name: getattr(self, name) for name in _OBJECTS}
        return plain | {name: _toml.table(value) for name, value in objects.items() if value is not None}

    def arguments(self) -> dict[str, Any]:
        """Return the settings as arguments of `paceline.replay`.

        Raises
        ------
        ConfigError
            If tenants are to be sampled, and nothing is.

        Examples
        --------
        >>> Settings(sample=1.0, sample_tenants=True).arguments()["sample"]
        Sample(every=1.0, tenants=True)
        """
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        every, tenants = given["sample"], given.pop("sample_tenants")
        if tenants and every is None:
            raise ConfigError("sample_tenants=True needs sample")
        return given | {"sample": None if every is None else Sample(every, tenants=tenants)}

    @classmethod
    def from_table(cls, content: object) -> Settings:
        """Read settings from a TOML table."""
        if not isinstance(content, Mapping):
            raise ConfigError(f"settings must be a table, was {_check.said(content)}")
        return _toml.build(cls, content, "settings")


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Run:
    """A trace, a cluster, a policy and settings.

    Parameters
    ----------
    trace
        What the trace is made from.
    cluster, policy
        As of `paceline.replay`.
    settings
        The other arguments of `paceline.replay`.

    Examples
    --------
    >>> import paceline
    >>> from paceline.runs import Recipe, Run
    >>> cluster = paceline.Cluster([paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")])
    >>> run = Run(trace=Recipe(preset="azure-conv", requests=20, seed=1), cluster=cluster)
    >>> again = Run.from_toml(run.to_toml())
    >>> again.replay() == run.replay()
    True
    """

    trace: Recipe
    cluster: Cluster
    policy: Policy = field(default_factory=vllm)
    settings: Settings = field(default_factory=Settings)

    def replay(
        self,
        trace: Trace | None = None,
        *,
        limits: Limits | None = None,
        progress: Callable[[Progress], object] | None = None,
    ) -> Result:
        """Replay the run.

        Parameters
        ----------
        trace
            What `Recipe.load` returned, where that was called before; None: load it now.
        limits
            As of `paceline.read_trace`.
        progress
            As of `paceline.replay`.
        """
        trace = self.trace.load(limits) if trace is None else trace
        return replay(trace, self.cluster, self.policy, progress=progress, **self.settings.arguments())

    @typed()
    def stream(
        self,
        out: str | os.PathLike[str] | Output,
        *,
        progress: Callable[[Progress], object] | None = None,
    ) -> Result:
        """Replay the run's trace as it is read, into a directory, and save the run in it.

        The trace is a file or folder for `paceline.scan_trace`; see `paceline.replay` for what is refused.

        Parameters
        ----------
        out, progress
            As of `paceline.replay`.

        Raises
        ------
        ConfigError
            If the trace is not a path alone, has changed since the run was saved, or a setting needs the
            whole trace.
        """
        recipe, path = self.trace, self.trace.path
        if path is None or recipe != Recipe(path=path, sha256=recipe.sha256):
            raise ConfigError(f"the trace of a streamed run must be a path and nothing else, was {recipe!r}")
        scan = scan_trace(path)
        given = self.settings.arguments()
        output = checked_for_scan(scan, out, {name: given[name] for name in ("clients", "sample", "record")})
        if recipe.sha256 not in (None, scan.sha256):
            raise ConfigError(f"{path}: must have the digest {recipe.sha256} of the run, had {scan.sha256}")
        from paceline.streaming import replay_scan

        until, leap, pace = self.settings.until, self.settings.leap, self.settings.pace
        return replay_scan(
            scan,
            self.cluster,
            self.policy,
            pace=pace,
            out=output,
            settings=settings_kept(until, leap, None, pace),
            progress=progress,
            run=replace(self, trace=replace(recipe, sha256=scan.sha256)).to_toml(output.path),
        )

    @typed()
    def to_toml(self, folder: Path | None = None) -> str:
        """Return the run as the text of a TOML file.

        Parameters
        ----------
        folder
            The folder of the file: the trace's path is written relative to it. None: as it is.

        Raises
        ------
        PolicyError
            If a rule of the policy is a Python function, which no file can hold.
        """
        parts: dict[str, Any] = {"trace": self.trace.to_table(folder)}
        settings = self.settings.to_table()
        if settings:
            parts["settings"] = settings
        parts["cluster"] = _toml.parse(self.cluster.to_toml(), "a cluster")
        parts["policy"] = _toml.parse(self.policy.to_toml(), "a policy")
        return _toml.dump(parts)

    @classmethod
    @typed()
    def from_toml(cls, text: str, folder: Path | None = None, what: str = "a run") -> Run:
        """Read a run that :meth:`to_toml` wrote, or that was written by hand.

        Parameters
        ----------
        text
            Tables ``[trace]`` and ``[cluster]``, and perhaps ``[policy]`` and ``[settings]``. A cluster or a
            policy may be ``{file = "FILE.toml"}``, and a policy ``{preset = "sarathi", settings = {…}}``.
        folder
            Where relative paths start; None: the working directory.
        what
            The name of the text in errors.

        Raises
        ------
        ConfigError, PolicyError
            If a table is missing, unknown or has a field that cannot be used.
        """
        content = _toml.parse(text, what)
        for name in content:
            if name not in _PARTS:
                raise ConfigError(f"{what} has no table {name!r}{_toml.close_matches(name, _PARTS)}")
        for name in ("trace", "cluster"):
            if name not in content:
                raise ConfigError(f"{what} lacks the table [{name}]")
        return run_from(content, Path() if folder is None else folder)


_PARTS = ("trace", "cluster", "policy", "settings")


def run_from(content: Mapping[str, Any], folder: Path) -> Run:
    """Return the run of a table with the parts of a run; relative paths start at `folder`."""
    cluster = cluster_from(included(content["cluster"], "cluster", folder))
    shape = cluster.instances[0].resolved_model
    layers = None if shape is None else shape.layers
    return Run(
        trace=Recipe.from_table(content["trace"], folder),
        cluster=cluster,
        policy=policy_from(included(content["policy"], "policy", folder), layers)
        if "policy" in content
        else vllm(),
        settings=Settings.from_table(content.get("settings", {})),
    )


@typed()
def read_run(path: str | Path) -> Run:
    """Read a run from a TOML file, such as the ``run.toml`` of a saved result.

    Parameters
    ----------
    path
        The file. Relative paths in it start at its folder.

    Raises
    ------
    ConfigError, PolicyError
        As `Run.from_toml` does.
    OSError
        If the file cannot be read.
    """
    path = Path(path)
    return Run.from_toml(read_document(path), path.parent, str(path))
