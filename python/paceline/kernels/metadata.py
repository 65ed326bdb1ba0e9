"""The metadata beside a profile: as much YAML as profilers write, without a dependency for it."""

from __future__ import annotations

from paceline.errors import ConfigError

__all__ = ["flatten"]


def flatten(text: str, what: str) -> dict[str, str]:
    r"""Return the scalars of nested mappings by their dotted names, as the text they are.

    Understood are mappings by indentation, scalars with or without quotes, comments, and lists (kept as text,
    in brackets). That is what profilers' ``meta.yaml`` holds; anything else is refused, not guessed.

    Parameters
    ----------
    text
        The file's content.
    what
        Its name in errors.

    Raises
    ------
    ConfigError
        If a line is none of these.

    Examples
    --------
    >>> flatten("gpu: 'RTX 4090'\nfit:\n  enabled: true   # yes\n  1:\n    bins: [0, 2]", "meta.yaml")
    {'gpu': 'RTX 4090', 'fit.enabled': 'true', 'fit.1.bins': '[0, 2]'}
    """
    facts: dict[str, str] = {}
    parents: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.split(" #")[0].rstrip()
        if not content.strip() or content.lstrip().startswith(("#", "---")):
            continue
        indent = len(content) - len(content.lstrip())
        if content.lstrip().startswith("- ") and parents:
            _item(facts, parents, indent, content.strip()[2:].strip())
            continue
        key, colon, value = content.strip().partition(":")
        if not colon or key.startswith(("- ", "[", "{")) or (value and not value.startswith(" ")):
            raise ConfigError(
                f"{what}, line {number}: must be `name: value` or `name:`, was {line.strip()!r}"
            )
        while parents and parents[-1][0] >= indent:
            parents.pop()
        name = ".".join([*(parent for _, parent in parents), key.strip("'\"")])
        value = value.strip()
        if value:
            facts[name] = value[1:-1] if value[0] == value[-1] and value[0] in "'\"" else value
        else:
            parents.append((indent, key.strip("'\"")))
    return facts


def _item(facts: dict[str, str], parents: list[tuple[int, str]], indent: int, value: str) -> None:
    """Add an item to the list of the mapping's latest key, which may be indented as deep as the list."""
    while len(parents) > 1 and parents[-1][0] > indent:
        parents.pop()
    name = ".".join(parent for _, parent in parents)
    facts[name] = f"{facts[name][:-1]}, {value}]" if name in facts else f"[{value}]"
