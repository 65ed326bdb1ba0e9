"""Writes all mutants of a source file into it, each active only while its number is."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from mutation import operators
from mutation.mutant import Mutant

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

# Evaluated by the compiler, or not at all: macros are no expressions until they are expanded.
LEFT_OUT = {
    "attribute_item",
    "inner_attribute_item",
    "const_item",
    "static_item",
    "macro_invocation",
    "macro_definition",
    "use_declaration",
    "enum_item",
    "struct_item",
    "type_arguments",
    "array_type",
    "generic_type",
}


@cache
def _parser() -> Parser:
    # Only this check needs them (requirements/mutants.txt), and other tests import every module.
    import tree_sitter_rust
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_rust.language()))


@dataclass
class Rewriter:
    """Rewrites files, and numbers their mutants.

    Attributes
    ----------
    refused : set of str
        Names of mutants to leave out: the compiler does not take them.
    mutants : list of Mutant
        Those written so far.
    """

    refused: set[str] = field(default_factory=set)
    mutants: list[Mutant] = field(default_factory=list)
    _file: str = ""
    _function: str = ""
    _type: str = ""
    _seen: dict[str, int] = field(default_factory=dict)
    _entered: dict[int, str] = field(default_factory=dict)

    def rewrite(self, file: str, source: bytes) -> str:
        """Return the text of a file with its mutants."""
        self._file = file
        tree = _parser().parse(source)
        if tree.root_node.has_error:
            raise ValueError(f"{file} must be Rust that tree-sitter reads, and has a part that it does not")
        return self._text(tree.root_node)

    def _numbers(self, node: Node, changes: list[str]) -> list[int] | None:
        """Number the changes of an expression; None if the compiler refuses one of them."""
        names, count = [], len(self.mutants)
        new = []
        for change in changes:
            function = f"{self._type}::{self._function}" if self._type else self._function
            mutant = Mutant(count + len(new) + 1, self._file, node.start_point[0] + 1, function, change)
            seen = self._seen[mutant.name] = self._seen.get(mutant.name, 0) + 1
            if seen > 1:
                mutant = Mutant(mutant.number, mutant.file, mutant.line, function, f"{change} ({seen})")
            new.append(mutant)
            names.append(mutant.name)
        if not self.refused.isdisjoint(names):
            return None
        self.mutants += new
        return [mutant.number for mutant in new]

    def _text(self, node: Node) -> str:
        if node.type in LEFT_OUT or not node.is_named:
            return _source(node)
        rule = _RULES.get(node.type)
        written = rule(self, node) if rule is not None else None
        text = self._children(node) if written is None else written
        noted = self._entered.pop(node.id, "")
        return f"{{{noted}{text[1:]}" if node.type == "block" else noted + text

    def _children(self, node: Node, replaced: dict[int, str] | None = None) -> str:
        """Return a node's text with its children's; ``replaced``: the text of some, by id."""
        assert node.text is not None
        parts, at, skips = [], node.start_byte, False
        for child in node.children:
            parts.append(node.text[at - node.start_byte : child.start_byte - node.start_byte].decode())
            if replaced is not None and child.id in replaced:
                parts.append(replaced[child.id])
            else:
                parts.append(_source(child) if skips else self._text(child))
            if child.type == "attribute_item":
                skips = skips or b"cfg(test)" in (child.text or b"")
            elif child.type not in ("line_comment", "block_comment"):
                skips = False
            at = child.end_byte
        parts.append(node.text[at - node.start_byte :].decode())
        return "".join(parts)

    def _impl(self, node: Node) -> str:
        kind = node.child_by_field_name("type")
        before, self._type = self._type, "" if kind is None else _source(kind).partition("<")[0]
        text = self._children(node)
        self._type = before
        return text

    def _function_item(self, node: Node) -> str:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        assert name is not None
        assert body is not None
        if any(
            child.type == "function_modifiers" and b"const" in (child.text or b"") for child in node.children
        ):
            return _source(node)
        before, self._function = self._function, _source(name)
        returns = node.child_by_field_name("return_type")
        values = operators.returned(None if returns is None else " ".join(_source(returns).split()))
        numbers = self._numbers(node, [f"return {value} at once" for value in values]) if values else None
        parameters = _source(node.child_by_field_name("parameters"))
        kind = None if returns is None or "&mut" in parameters else " ".join(_source(returns).split())
        begins = _begins(body)
        if numbers and begins is not None and not operators.compares(kind):
            self._entered[begins.id] = operators.entered(numbers)
        inner = self._children(body)
        if numbers:
            inner = operators.ended(numbers, values, inner, kind)
        text = self._children(node, {body.id: inner})
        self._function = before
        return text

    def _binary(self, node: Node) -> str | None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = _source(node.child_by_field_name("operator"))
        if left is None or right is None or _has_let(left) or _has_let(right):
            return None
        for table, write in (
            (operators.COMPARISONS, operators.compared),
            (operators.ARITHMETIC, operators.computed),
            (operators.LAZY, operators.lazy),
        ):
            if operator in table:
                numbers = self._numbers(node, _changes(node, operator, table[operator]))
                if numbers:
                    return write(numbers, operator, self._text(left), self._text(right))
        return None

    def _assignment(self, node: Node) -> str | None:
        place, value = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = _source(node.child_by_field_name("operator"))
        if place is None or value is None or operator not in operators.ASSIGNMENTS:
            return None
        numbers = self._numbers(node, _changes(node, operator, operators.ASSIGNMENTS[operator]))
        if numbers is None:
            return None
        return operators.assigned(numbers, operator, _source(place), self._text(value))

    def _unary(self, node: Node) -> str | None:
        operator, operand = _source(node.children[0]), node.children[-1]
        if operator not in ("!", "-") or _has_let(operand) or operand.type.endswith("_literal"):
            return None
        numbers = self._numbers(node, [f"{_brief(node)} without {operator}"])
        return None if numbers is None else operators.negated(numbers, operator, self._text(operand))

    def _call(self, node: Node) -> str | None:
        function, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if function is None or given is None or function.type != "field_expression":
            return None
        method = _source(function.child_by_field_name("field"))
        arguments = [child for child in given.children if child.is_named]
        receiver = function.child_by_field_name("value")
        if method not in operators.METHODS or len(arguments) != 1 or receiver is None:
            return None
        numbers = self._numbers(node, _changes(node, method, operators.METHODS[method]))
        if numbers is None:
            return None
        return operators.called(numbers, method, self._text(receiver), self._text(arguments[0]))

    def _pattern(self, node: Node) -> str | None:
        guard = node.child_by_field_name("condition")
        if guard is None or _has_let(guard):
            return None
        numbers = self._numbers(node, [f"guard {_brief(guard)} to {value}" for value in ("true", "false")])
        if numbers is None:
            return None
        return self._children(node, {guard.id: operators.guarded(numbers, self._text(guard))})


_RULES: dict[str, Callable[[Rewriter, Node], str | None]] = {
    "impl_item": Rewriter._impl,
    "function_item": Rewriter._function_item,
    "binary_expression": Rewriter._binary,
    "compound_assignment_expr": Rewriter._assignment,
    "unary_expression": Rewriter._unary,
    "call_expression": Rewriter._call,
    "match_pattern": Rewriter._pattern,
}


def _source(node: Node | None) -> str:
    return "" if node is None or node.text is None else node.text.decode()


def _begins(body: Node) -> Node | None:
    """Return where a body begins that may do nothing: behind its first variables and conditions.

    That is a statement, or the block of a condition or loop that is all that follows; None if it begins at
    once.
    """
    parts = [node for node in body.children if node.is_named and not node.type.endswith("_comment")]
    for at, node in enumerate(parts):
        inner = node.children[0] if node.type == "expression_statement" else node
        block = inner.child_by_field_name(_BLOCKS.get(inner.type, ""))
        branches = inner.child_by_field_name("alternative") is not None
        if inner.type == "let_declaration" or (block is not None and not branches and _returns(block)):
            continue
        if node.type == "attribute_item":
            return None
        if block is not None and not branches and at + 1 == len(parts):
            return block
        return node if at > 0 else None
    return None


_BLOCKS = {"if_expression": "consequence", "while_expression": "body", "for_expression": "body"}


def _returns(block: Node) -> bool:
    return any((child.text or b"").startswith(b"return") for child in block.children)


def _has_let(node: Node) -> bool:
    if node.type in ("let_condition", "let_chain"):
        return True
    return node.type in ("binary_expression", "parenthesized_expression") and any(
        _has_let(child) for child in node.children
    )


def _brief(node: Node) -> str:
    return re.sub(r"\s+", " ", re.sub(r"//[^\n]*", "", _source(node)))


def _changes(node: Node, operator: str, others: tuple[str, ...]) -> list[str]:
    return [f"{operator} to {other} in {_brief(node)}" for other in others]
