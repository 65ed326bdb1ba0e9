"""A policy from the words of a command line: by its name and parameters, or from a file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

if TYPE_CHECKING:
    from paceline.policy import Policy

__all__ = ["choose", "counts_of", "known", "made_by", "split_setting", "word"]


def known() -> dict[str, Callable[..., Policy]]:
    """Return the policies that `paceline.policies` makes, by their word for the command line."""
    from paceline.policies.by_name import maker, names

    return {word(name): maker(name) for name in names()}


def made_by(policy: str) -> Callable[..., Policy]:
    """Return the function that makes a policy.

    Parameters
    ----------
    policy
        Its name, with dashes or underscores.

    Raises
    ------
    PolicyError
        If there is no such policy; the message names close ones.
    """
    from paceline._toml import close_matches
    from paceline.errors import PolicyError
    from paceline.policies.by_name import maker, names

    name = policy.replace("-", "_")
    if name not in names():
        listed = close_matches(word(policy), map(word, names()))
        raise PolicyError(f"there is no policy {policy!r}{listed}; a file must be FILE.toml")
    return maker(name)


def word(name: str) -> str:
    """Write a Python name as one does on a command line."""
    return name.replace("_", "-")


def choose(
    policy: str, options: Mapping[str, object], settings: Sequence[str], *, layers: int | None = None
) -> Policy:
    """Return the policy of a name with its parameters, or of a file.

    Parameters
    ----------
    policy
        A policy's name, with dashes or underscores, or a TOML file's.
    options
        Parameters that have options of their own, by name; those that are None
        were not given.
    settings
        Parameters as `name=value`.
    layers
        Layers of the model, for a policy that needs them.

    Raises
    ------
    PolicyError
        If there is no such policy, no such parameter, or no such value.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if policy.endswith(".toml"):
        return _read(Path(policy), given, settings)
    from paceline.errors import PolicyError

    name, make = word(policy), made_by(policy)
    parameters = inspect.signature(make).parameters
    arguments = {**given, **_settings(name, make, settings)}
    for option in given:
        if option not in parameters:
            raise PolicyError(f"--{word(option)}: {name} has no such parameter; it has {_list(parameters)}")
        if any(split_setting(setting)[0] == option for setting in settings):
            raise PolicyError(f"{option} was given twice: by --{word(option)} and by --set")
    if layers is not None and "layers" in parameters:
        arguments.setdefault("layers", layers)
    for parameter in parameters.values():
        if parameter.default is parameter.empty and parameter.name not in arguments:
            raise PolicyError(f"{name} needs {parameter.name}: --set {parameter.name}=VALUE")
    return make(**arguments)


def counts_of(policy: str, split: Sequence[str] | None) -> tuple[str, ...]:
    """Return the parameters of a policy that are numbers of instances, which `paceline plan` searches.

    Parameters
    ----------
    policy
        A policy's name or a file's, as of `choose`.
    split
        The parameters, if they were given; None: ``prefill`` and ``decode``, or ``instances``, if the policy
        has them.

    Raises
    ------
    PolicyError
        If the policy has no such parameter.
    """
    from paceline.errors import PolicyError

    parameters = {} if policy.endswith(".toml") else inspect.signature(made_by(policy)).parameters
    if split is None:
        searched: tuple[tuple[str, ...], ...] = (("prefill", "decode"), ("instances",))
        return next((names for names in searched if set(names) <= set(parameters)), ())
    names = tuple(name.strip().replace("-", "_") for name in split)
    for name in names:
        if name not in parameters:
            raise PolicyError(
                f"--split {name}: {policy} has no such parameter; it has {_list(parameters) or 'none'}"
            )
    return names


def _read(path: Path, given: Mapping[str, object], settings: Sequence[str]) -> Policy:
    from paceline._documents import read_document
    from paceline.errors import PolicyError
    from paceline.policy import Policy

    text = read_document(path, PolicyError)
    options = [f"--{word(name)}" for name in given] + ["--set"] * bool(settings)
    if options:
        raise PolicyError(f"{path} says all there is about the policy; write there what {options[0]} says")
    try:
        return Policy.from_toml(text)
    except PolicyError as error:
        raise PolicyError(f"{path}: {error}") from error


def _settings(policy: str, make: Callable[..., Policy], settings: Sequence[str]) -> dict[str, Any]:
    from paceline.cli.typed_value import typed_value
    from paceline.errors import PolicyError

    parameters, types = inspect.signature(make).parameters, get_type_hints(make)
    values: dict[str, Any] = {}
    for setting in settings:
        name, text = split_setting(setting)
        if name not in parameters:
            raise PolicyError(f"--set {name}: {policy} has no such parameter; it has {_list(parameters)}")
        if name in values:
            raise PolicyError(f"{name} was given twice by --set")
        values[name] = typed_value(text, types[name], f"{name} of {policy}")
    return values


def split_setting(setting: str) -> tuple[str, str]:
    """Return the name and the text of a parameter given as `name=value`."""
    from paceline.errors import PolicyError

    name, equals, text = setting.partition("=")
    if not (equals and name.strip()):
        raise PolicyError(f"--set must be NAME=VALUE, was {setting!r}")
    return name.strip().replace("-", "_"), text.strip()


def _list(parameters: Mapping[str, object]) -> str:
    return ", ".join(parameters)
