"""Damage to valid files: bytes cut and replaced, values of documents exchanged for others."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

__all__ = ["damaged", "damaged_tree"]

TRICKS = [
    *(
        b"",
        b"\n",
        b"\n\n\n",
        b"\r",
        b"\r\n",
        b",",
        b'"',
        b"'",
        b"\x00",
        b"\xff",
        b"\xef\xbb\xbf",
        b" ",
        b"\t",
    ),
    *(b"-", b"+", b".", b"e9", b"nan", b"NaN", b"inf", b"1e400", b"-1", b"0", b"1.5", b"2147483648", b"="),
    *(
        b"18446744073709551616",
        b"9" * 5000,
        b"null",
        b"true",
        b"{",
        b"}",
        b"[",
        b"]",
        b"[" * 3000,
        b"{" * 3000,
    ),
    *(b"\xd9\xa3", b"2023-11-16 18:17:03", b"9999-12-31 23:59:59.999999999", b"../", b"(", b")", b"(" * 2000),
]
VALUES: list[Any] = [
    *(True, False, -1, 0, 1, 2, 17, 1.5, -0.5, 1e308, 1e-320, 2**30, 2**31, 2**32, 2**63, 2**64),
    *("", "x", "8", "nan", "../x", "auto", [], [1], ["x"], [[]], {}, {"x": 1}, {"kind": []}, [None], None),
]


@st.composite
def damaged(draw: st.DrawFn, seeds: st.SearchStrategy[bytes], most: int = 4) -> bytes:
    """Draw a valid file with some pieces cut, replaced or inserted."""
    data = draw(seeds)
    for _ in range(draw(st.integers(1, most))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 12)))
        data = data[:start] + draw(st.sampled_from(TRICKS) | st.binary(max_size=4)) + data[end:]
    return data


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Return every container of a document with each of its keys, outermost first."""
    found: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop(0)
        keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        for key in keys:
            found.append((node, key))
            waiting.append(node[key])
    return found


@st.composite
def damaged_tree(draw: st.DrawFn, trees: st.SearchStrategy[Any], most: int = 3) -> Any:
    """Draw a valid document with some values exchanged, removed or repeated."""
    tree = copy.deepcopy(draw(trees))
    for _ in range(draw(st.integers(1, most))):
        places = _places(tree)
        if not places:
            break
        # A long list holds most of the places. So that others are drawn too, half of them are near the top.
        last = len(places) - 1
        node, key = places[draw(st.integers(0, last) | st.integers(0, min(40, last)))]
        match draw(st.sampled_from(["exchange", "exchange", "exchange", "remove", "rename", "other"])):
            case "remove":
                del node[key]
            case "rename" if isinstance(node, dict):
                node[f"{key}x"] = node.pop(key)
            case "other":
                other, its_key = places[draw(st.integers(0, last))]
                node[key] = copy.deepcopy(other[its_key])
            case _:
                node[key] = copy.deepcopy(draw(st.sampled_from(VALUES)))
    return tree
