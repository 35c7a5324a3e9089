"""The TextMate grammar gives the parts of a line the right scopes, if Oniguruma applies it as editors do."""

import json
import logging
from pathlib import Path

import pytest

GRAMMAR = Path(__file__).parents[2] / "docs" / "editors" / "stablehlo.tmLanguage.json"


def scopes(line: str) -> list[tuple[str, str]]:
    """The parts of a line to which the grammar gives a scope. Each part is paired with its innermost scope."""
    base = pytest.importorskip("textmate_grammar.parsers.base")
    logging.getLogger("textmate_grammar").setLevel(logging.ERROR)  # the library warns of text without a scope
    parsed = base.LanguageParser(json.loads(GRAMMAR.read_text())).parse_string(f"{line}\n")
    return [
        (text, of_part[-1].removesuffix(".mlir")) for _, text, of_part in parsed.flatten() if len(of_part) > 1
    ]


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
                ('"a ', "string.quoted.double"),
                ('\\"', "constant.character.escape"),
                (' b"', "string.quoted.double"),
            ],
        ),
    ],
)
def test_scopes(line: str, expected: list[tuple[str, str]]) -> None:
    assert scopes(line) == expected
