"""The mutants of an operator, a guard and a function's body, written into one expression.

Operands are evaluated once, in the same order as without mutants, and written once: an expression grows with
its operators, not with its depth. A mutant is asked for (``mutant::is``) only where its value would differ,
as far as that is known without further evaluation: a replay in which it never differs cannot notice it.
"""

from __future__ import annotations

from collections.abc import Sequence

COMPARISONS = {
    "==": ("!=",),
    "!=": ("==",),
    "<": ("<=", "==", ">"),
    "<=": ("<", ">"),
    ">": (">=", "==", "<"),
    ">=": (">", "<"),
}
ARITHMETIC = {
    "+": ("-", "*"),
    "-": ("+", "*"),
    "*": ("+", "-"),
    "/": ("*", "%"),
    "%": ("/", "+"),
    "&": ("|",),
    "|": ("&",),
    "^": ("|",),
    "<<": (">>",),
    ">>": ("<<",),
}
LAZY = {"&&": ("||",), "||": ("&&",)}
ASSIGNMENTS = {f"{operator}=": tuple(f"{one}=" for one in other) for operator, other in ARITHMETIC.items()}
METHODS = {"min": ("max",), "max": ("min",)}
INTEGERS = {"u8", "u16", "u32", "u64", "u128", "usize", "i64", "i128", "Ticks", "Slot", "Block"}


def _choice(numbers: Sequence[int], changed: Sequence[str], unchanged: str) -> str:
    several = "".join(
        f"if crate::mutant::is({number}) {{ {text} }} else "
        for number, text in zip(numbers, changed, strict=True)
    )
    return f"{several}{{ {unchanged} }}"


def compared(numbers: Sequence[int], operator: str, left: str, right: str) -> str:
    """Write a comparison; both sides are borrowed, as a comparison does."""
    others = " || ".join(
        f"((*l_ {other} *r_) != v_ && crate::mutant::is({number}))"
        for number, other in zip(numbers, COMPARISONS[operator], strict=True)
    )
    chosen = f"{{ let v_ = *l_ {operator} *r_; v_ != ({others}) }}"
    return f"(match (&({left}), &({right})) {{ (l_, r_) => {chosen} }})"


def computed(numbers: Sequence[int], operator: str, left: str, right: str) -> str:
    """Write an operator on two numbers."""
    changed = [f"l_ {other} r_" for other in ARITHMETIC[operator]]
    return f"(match ({left}, {right}) {{ (l_, r_) => {_choice(numbers, changed, f'l_ {operator} r_')} }})"


def lazy(numbers: Sequence[int], operator: str, left: str, right: str) -> str:
    """Write ``&&`` or ``||``: the left side decides whether the right one is evaluated.

    Where it is, the right side decides whether the mutant differs. Where it is not, that is not known.
    """
    (number,) = numbers
    evaluates = "l_" if operator == "&&" else "!l_"
    differs = "!v_" if operator == "&&" else "v_"
    chosen = f"if {evaluates} {{ !crate::mutant::on({number}) }} else {{ crate::mutant::is({number}) }}"
    noted = f"if {evaluates} && {differs} {{ crate::mutant::note({number}); }}"
    return f"(match ({left}) {{ l_ => if {chosen} {{ let v_ = {right}; {noted} v_ }} else {{ l_ }} }})"


def assigned(numbers: Sequence[int], operator: str, place: str, value: str) -> str:
    """Write an assignment with an operator."""
    changed = [f"{place} {other} r_;" for other in ASSIGNMENTS[operator]]
    return f"{{ let r_ = {value}; {_choice(numbers, changed, f'{place} {operator} r_;')} }}"


def negated(numbers: Sequence[int], operator: str, operand: str) -> str:
    """Write ``!`` or ``-`` before an operand."""
    return f"(match ({operand}) {{ v_ => {_choice(numbers, ['v_'], f'{operator}v_')} }})"


def called(numbers: Sequence[int], method: str, receiver: str, argument: str) -> str:
    """Write a call of ``min`` or ``max``."""
    (number,) = numbers
    (other,) = METHODS[method]
    chosen = f"if l_ != r_ && crate::mutant::is({number}) {{ l_.{other}(r_) }} else {{ l_.{method}(r_) }}"
    return f"(match ({receiver}, {argument}) {{ (l_, r_) => {chosen} }})"


def guarded(numbers: Sequence[int], condition: str) -> str:
    """Write the guard of a pattern, which becomes true or false."""
    always, never = numbers
    others = f"(!v_ && crate::mutant::is({always})) || (v_ && crate::mutant::is({never}))"
    return f"({{ let v_ = {condition}; v_ != ({others}) }})"


def returned(returns: str | None) -> list[str]:
    """Return the values that a function of this type may return without running."""
    if returns is None:
        return ["()"]
    if returns == "bool":
        return ["true", "false"]
    if returns in INTEGERS:
        return ["0", "1"]
    if returns.startswith("Option<"):
        return ["None"]
    if returns.startswith("Result<"):
        inner = returns.removeprefix("Result<").partition(",")[0]
        return [f"Ok({value})" for value in returned(None if inner == "()" else inner)]
    if returns.startswith(("impl ", "&", "!")):
        return []
    return ["Default::default()"]
