"""The TextMate grammar: its patterns name the parts of a line of StableHLO and of the tidu dialect."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

GRAMMAR: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "docs" / "editors" / "stablehlo.tmLanguage.json").read_text()
)


def scopes(line: str) -> list[tuple[str, str]]:
    """The scoped pieces of a line: as in TextMate, the leftmost match wins, among equals the first pattern."""
    found, at = [], 0
    while at < len(line):
        matches = []
        for i, pattern in enumerate(GRAMMAR["patterns"]):
            one = pattern.get("match") or f'{pattern["begin"]}(?:[^"\\\\]|\\\\.)*{pattern["end"]}'
            if (match := re.compile(one).search(line, at)) and match.end() > at:
                matches.append((match.start(), i, match))
        if not matches:
            break
        _, i, match = min(matches, key=lambda found: found[:2])
        found.append((match[0], GRAMMAR["patterns"][i]["name"].removesuffix(".mlir")))
        at = match.end()
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "  %0 = stablehlo.multiply %arg0, %cst_1 : tensor<4x?xf32>  // a product",
            [
                ("%0", "variable.other"),
                ("stablehlo.multiply", "keyword.operator.op"),
                ("%arg0", "variable.other"),
                ("%cst_1", "variable.other"),
                ("tensor", "storage.type"),
                ("4x?xf32", "storage.type.shape"),
                ("// a product", "comment.line.double-slash"),
            ],
        ),
        (
            '%1 = "tidu.external"() {ref = @main::@v0, tidu.active = array<i1: true>}',
            [
                ("%1", "variable.other"),
                ('"tidu.external"', "string.quoted.double.op"),
                ("@main", "entity.name.function"),
                ("@v0", "entity.name.function"),
                ("tidu.active", "entity.other.attribute-name.tidu"),
                ("array", "keyword.control"),
                ("i1", "storage.type"),
                ("true", "keyword.control"),
            ],
        ),
        (
            'stablehlo.constant dense<-1.5e+00> : tensor<bf16> loc("a \\" b")',
            [
                ("stablehlo.constant", "keyword.operator.op"),
                ("dense", "keyword.control"),
                ("-1.5e+00", "constant.numeric"),
                ("tensor", "storage.type"),
                ("bf16", "storage.type"),
                ("loc", "keyword.control"),
                ('"a \\" b"', "string.quoted.double"),
            ],
        ),
    ],
)
def test_scopes(line: str, expected: list[tuple[str, str]]) -> None:
    assert scopes(line) == expected
