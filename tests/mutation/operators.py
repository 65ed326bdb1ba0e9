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
    others = ARITHMETIC[operator]
    several = " else ".join(
        f"if {_may_differ(operator, other)}crate::mutant::is({number}) {{ l_ {other} r_ }}"
        for number, other in zip(numbers, others, strict=True)
    )
    return f"(match ({left}, {right}) {{ (l_, r_) => {several} else {{ l_ {operator} r_ }} }})"


def _may_differ(operator: str, other: str) -> str:
    """Write where two operators may have different results, as far as zeros tell."""
    if (operator, other) in (("+", "-"), ("-", "+")):
        return "!crate::mutant::is_zero(&r_) && "
    if operator in "+-*" and other in "+-*":
        return "!(crate::mutant::is_zero(&l_) && crate::mutant::is_zero(&r_)) && "
    return ""


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
    others = ASSIGNMENTS[operator]
    several = " else ".join(
        f"if {_may_change(operator, other)}crate::mutant::is({number}) {{ {place} {other} r_; }}"
        for number, other in zip(numbers, others, strict=True)
    )
    return f"{{ let r_ = {value}; {several} else {{ {place} {operator} r_; }} }}"


def _may_change(operator: str, other: str) -> str:
    return "!crate::mutant::is_zero(&r_) && " if {operator, other} == {"+=", "-="} else ""


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


def compares(returns: str | None) -> bool:
    """Whether values of this type tell whether a mutant differs; None: the function may change something."""
    if returns is None or returns in INTEGERS or returns == "bool":
        return returns is not None
    return returns.startswith("Option<") and "&" not in returns and "'" not in returns


def ended(numbers: Sequence[int], values: Sequence[str], body: str, returns: str | None) -> str:
    """Write a body that may return one of these values at once; ``returns``: its type, if it changes nothing.

    If so, and if its values can be compared, the value that it returns tells whether a mutant differs.
    Another function tells whether it got past its first conditions (``entered``).
    """
    several = list(zip(numbers, values, strict=True))
    if not compares(returns):
        return (
            "{"
            + "".join(f" if crate::mutant::is({one}) {{ return {value}; }}" for one, value in several)
            + body[1:]
        )
    early = " ".join(f"if crate::mutant::on({one}) {{ return {value}; }}" for one, value in several)
    differs = ["v_.is_some()" if value == "None" else f"v_ != {value}" for value in values]
    noted = " ".join(
        f"if {other} {{ crate::mutant::note({one}); }}" for one, other in zip(numbers, differs, strict=True)
    )
    return f"{{ {early} let v_: {returns} = (|| {body})(); {noted} v_ }}"


def entered(numbers: Sequence[int]) -> str:
    """Write what notes that a function has begun what its mutants leave out."""
    return "".join(f" crate::mutant::enter({number});" for number in numbers) + " "


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
