"""No function of the public API takes more than twelve arguments: what belongs together is one value."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest

import paceline

MOST = 12
PUBLIC = (
    "",
    ".policies",
    ".policy",
    ".rank",
    ".testing",
    ".validation",
    ".benchmarks",
    ".calibration",
    ".model",
    ".hardware",
)


def functions() -> Iterator[tuple[str, object]]:
    """Yield the functions that public packages export, and the methods of the classes that they export."""
    for package in PUBLIC:
        module = importlib.import_module(f"paceline{package}")
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value):
                yield f"{module.__name__}.{name}", value
            elif inspect.isclass(value):
                for method, of in vars(value).items():
                    plain = of.__func__ if isinstance(of, classmethod | staticmethod) else of
                    if inspect.isfunction(plain) and not method.startswith("_"):
                        yield f"{module.__name__}.{name}.{method}", plain


@pytest.mark.parametrize(
    ("name", "function"), list(functions()), ids=lambda one: one if isinstance(one, str) else ""
)
def test_a_public_function_takes_at_most_twelve_arguments(name: str, function: object) -> None:
    taken = [each for each in inspect.signature(function).parameters if each not in ("self", "cls")]  # type: ignore[arg-type]
    assert len(taken) <= MOST, f"{name} takes {len(taken)}: {', '.join(taken)}"


def test_the_functions_are_found() -> None:
    names = {name for name, _ in functions()}
    assert {"paceline.replay", "paceline.policies.pascal", "paceline.Trace.from_columns"} <= names
    known = {module.name for module in pkgutil.iter_modules(paceline.__path__)}
    assert {package.removeprefix(".") for package in PUBLIC if package} <= known
