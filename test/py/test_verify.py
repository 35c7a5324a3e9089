"""The verifiers of the dialect refuse each malformed module at its location, with the reason."""

import pytest

from tiduc.dialect.errors import ParseError, TiducError
from tiduc.dialect.mlir.context import parse
from tiduc.passes.resolve import resolve

LINEAR = "tidu.input_of = [@F::@x], tidu.output_of = [@F::@y], tidu.active_outputs = array<i1: true>"


def graph(*lines: str, name: str = "G", keys: str = "@x", attributes: str = "", arguments: str = "%x") -> str:
    """The text of a graph of f64 scalars. The arguments are on line 2, and `lines` start on line 3."""
    typed = ", ".join(f"{x}: tensor<f64>" for x in arguments.split())
    header = f"^bb0({typed}):" if typed else "^bb0:"
    more = f", {attributes}" if attributes else ""
    inside = "\n".join([header, *lines])
    return f'"tidu.graph"() ({{\n{inside}\n}}) {{sym_name = "{name}", inputs = [{keys}]{more}}} : () -> ()'


def linear(*lines: str, attributes: str = LINEAR, **more: str) -> str:
    return graph(*lines, attributes=attributes, **more)


def returns(value: str = "%x", count: int = 1) -> str:
    values, types = ", ".join([value] * count), ", ".join(["tensor<f64>"] * count)
    return f'"stablehlo.return"({values}) : ({types}) -> ()'


def negate(result: str, x: str, mask: str = "") -> str:
    attributes = f"{{tidu.active = {mask}}} " if mask else ""
    return f"{result} = stablehlo.negate {x} {attributes}: tensor<f64>"


def multiply(result: str, x: str, y: str, mask: str = "") -> str:
    attributes = f"{{tidu.active = {mask}}} " if mask else ""
    return f"{result} = stablehlo.multiply {x}, {y} {attributes}: tensor<f64>"


EXTERNAL = '%e = "tidu.external"() {ref = @F::@k} : () -> tensor<f64>'
ACTIVE = "array<i1: true>"
NO_BLOCK = '"tidu.graph"() ({}) {sym_name = "G", inputs = []} : () -> ()'
NAME = '"tidu.name"(%x) {{sym_name = "{}"}} : (tensor<f64>) -> ()'


def external(ref: str) -> str:
    return f'%e = "tidu.external"() {{ref = {ref}}} : () -> tensor<f64>'


def bind(key: str, value: str) -> str:
    return f'"tidu.bind"() {{input = {key}, value = {value}}} : () -> ()'


VALID = {
    "no inputs, no outputs": graph('"stablehlo.return"() : () -> ()', arguments="", keys=""),
    "a name": graph(NAME.format("v"), returns()),
    "an external": graph(EXTERNAL, returns("%e")),
    "one value returned twice": graph(returns(count=2)),
    "linear": linear(EXTERNAL, multiply("%0", "%e", "%x", "array<i1: false, true>"), returns("%0")),
    "linear, a mask dropped": linear(EXTERNAL, multiply("%0", "%e", "%x"), returns("%0")),
    "linear, one op with a mask after one without": linear(
        negate("%0", "%x"), negate("%1", "%0", ACTIVE), returns("%1")
    ),
    "linear, an input returned": linear(returns()),
    "linear, an inactive output": linear(
        returns(),
        attributes="tidu.input_of = [@F::@x], tidu.output_of = [@F::@y, @F::@z], "
        "tidu.active_outputs = array<i1: false, true>",
    ),
    "merged, with masks": graph(negate("%0", "%x", ACTIVE), returns("%0"), attributes="tidu.merged"),
    "a binding": bind("@x", "@F::@v"),
}


@pytest.mark.parametrize("name", VALID)
def test_valid(name: str) -> None:
    text = str(parse(VALID[name]))
    assert str(parse(text)) == text


def test_outputs_of_several_types() -> None:
    text = graph(
        '"stablehlo.return"(%x, %i) : (tensor<f64>, tensor<2xi32>) -> ()', keys="@x, @i", arguments="%x"
    )
    parse(text.replace("%x: tensor<f64>", "%x: tensor<f64>, %i: tensor<2xi32>"))


INVALID = {
    # kind of fault: text, line of the error, message
    "no name": (
        '"tidu.graph"() ({\n^bb0:\n"stablehlo.return"() : () -> ()\n}) {inputs = []} : () -> ()',
        1,
        "sym_name",
    ),
    "no block": (NO_BLOCK, 1, "expects one block, has 0"),
    "two blocks": (
        graph(returns(), "^bb1:", returns()),
        1,
        "expects one block, has 2",
    ),
    "no terminator": (graph(negate("%0", "%x")), 1, "expects its block to end in stablehlo.return"),
    "fewer keys than arguments": (
        graph(returns(), arguments="%x %y"),
        1,
        "has 1 input keys for 2 block arguments",
    ),
    "more keys than arguments": (
        graph(returns(), keys="@x, @y"),
        1,
        "has 2 input keys for 1 block arguments",
    ),
    "a key that is no symbol": (graph(returns(), keys='"x"'), 1, "expects input keys that are symbols"),
    "a key of two parts": (graph(returns(), keys="@F::@x"), 1, "expects input keys that are symbols"),
    "a key twice": (
        graph(returns(), keys="@x, @x", arguments="%x %y"),
        1,
        "defines the key @x a second time",
    ),
    "a name that is a key": (graph(NAME.format("x"), returns()), 3, "defines the key @x a second time"),
    "a name twice": (
        graph(NAME.format("v"), negate("%0", "%x"), NAME.format("v"), returns()),
        5,
        "defines the key @v a second time",
    ),
    "a reference of one part": (
        graph(external("@v"), returns()),
        3,
        "expects a reference @graph::@name, has @v",
    ),
    "a reference of three parts": (
        graph(external("@F::@v::@w"), returns()),
        3,
        "expects a reference @graph::@name, has @F::@v::@w",
    ),
    "a reference that is none": (graph(external('"F.v"'), returns()), 3, "expects a reference @graph::@name"),
    "a reference into its own graph": (
        graph(external("@G::@v"), returns()),
        3,
        "refers to @G::@v in its own graph",
    ),
    "an external outside": (external("@F::@v"), 1, "expects to be directly in a tidu.graph"),
    "a name in a region": (
        graph(
            '%c = "stablehlo.case"(%i) ({',
            '%e = "tidu.external"() {ref = @F::@v} : () -> tensor<f64>',
            '"stablehlo.return"(%e) : (tensor<f64>) -> ()',
            "}) : (tensor<i32>) -> tensor<f64>",
            returns(),
            keys="@x, @i",
        ).replace("%x: tensor<f64>", "%x: tensor<f64>, %i: tensor<i32>"),
        4,
        "expects to be directly in a tidu.graph",
    ),
    "a binding of no key": (bind('"x"', "@F::@v"), 1, "expects an input key, has"),
    "a binding of a value": (bind("@F::@x", "@F::@v"), 1, "expects an input key, has @F::@x"),
    "a binding to no value": (bind("@x", "@v"), 1, "expects a reference @graph::@name, has @v"),
    "a mask in a primal graph": (
        graph(negate("%0", "%x", ACTIVE), returns("%0")),
        3,
        "carries an active mask in a graph without tangent inputs",
    ),
    "a mask of a wrong length in a merged graph": (
        graph(negate("%0", "%x", "array<i1: true, true>"), returns("%0"), attributes="tidu.merged"),
        3,
        "has an active mask of 2 flags for 1 operands",
    ),
    "a mask of another type": (
        linear(negate("%0", "%x", "[true]"), returns("%0")),
        3,
        "expects tidu.active to be an array<i1>",
    ),
    "a mask too long": (
        linear(negate("%0", "%x", "array<i1: true, true>"), returns("%0")),
        3,
        "has an active mask of 2 flags for 1 operands",
    ),
    "a mask too short": (
        linear(EXTERNAL, multiply("%0", "%e", "%x", ACTIVE), returns("%0")),
        4,
        "has an active mask of 1 flags for 2 operands",
    ),
    "a mask of the wrong operand": (
        linear(EXTERNAL, multiply("%0", "%e", "%x", "array<i1: true, false>"), returns("%0")),
        4,
        "has the active mask [True, False], but its operands are [False, True]",
    ),
    "a mask without active operands": (
        linear(EXTERNAL, negate("%0", "%e", "array<i1: false>"), returns()),
        4,
        "carries an active mask, but no operand is active",
    ),
    "a mask on a primal op": (
        linear(EXTERNAL, negate("%0", "%e", ACTIVE), returns()),
        4,
        "has the active mask [True], but its operands are [False]",
    ),
    "an inactive value as an active output": (
        linear(EXTERNAL, returns("%e")),
        4,
        "returns the inactive value #0 as an active output",
    ),
    "no output_of": (
        linear(returns(), attributes="tidu.input_of = [@F::@x], tidu.active_outputs = array<i1: true>"),
        1,
        "is linear, but lacks tidu.output_of or tidu.active_outputs",
    ),
    "no active_outputs": (
        linear(returns(), attributes="tidu.input_of = [@F::@x], tidu.output_of = [@F::@y]"),
        1,
        "is linear, but lacks tidu.output_of or tidu.active_outputs",
    ),
    "fewer input_of than inputs": (
        linear(returns(), keys="@x, @y", arguments="%x %y"),
        1,
        "has 1 tidu.input_of for 2 inputs",
    ),
    "active_outputs of another type": (
        linear(returns(), attributes=LINEAR.replace("array<i1: true>", "[true]")),
        1,
        "expects tidu.active_outputs to be an array<i1>",
    ),
    "more active_outputs than outputs": (
        linear(returns(count=2), attributes=LINEAR.replace("i1: true", "i1: true, true")),
        1,
        "has 2 tidu.active_outputs for 1 outputs",
    ),
    "fewer values than active outputs": (
        linear('"stablehlo.return"() : () -> ()'),
        3,
        "expects one value for each active output, 1",
    ),
    "a value for an inactive output": (
        linear(returns(), attributes=LINEAR.replace("i1: true", "i1: false")),
        3,
        "expects one value for each active output, 0",
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid(name: str) -> None:
    text, line, message = INVALID[name]
    with pytest.raises(ParseError) as error:
        parse(text, "file.mlir")
    assert message in str(error.value)
    assert str(error.value).startswith(f"file.mlir:{line}:")


EMPTY = '"tidu.graph"() ({\n^bb0:\n"stablehlo.return"() : () -> ()\n}) {sym_name = "G"} : () -> ()'
MALFORMED = {
    # The verifiers read these attributes before MLIR has checked that they exist and have the right kind.
    "no input keys": EMPTY,
    "input keys that are no array": EMPTY.replace("}", ", inputs = @x}", 2).replace(", inputs = @x", "", 1),
    "an external of nothing": graph('%e = "tidu.external"() : () -> tensor<f64>', returns("%e")),
    "a name that is no string": graph(NAME.format("v").replace('"v"', "@v"), returns()),
    "a name without a name": graph('"tidu.name"(%x) : (tensor<f64>) -> ()', returns()),
    "a binding of nothing": '"tidu.bind"() : () -> ()',
    "input_of is no array": linear(returns(), attributes=LINEAR.replace("[@F::@x]", "@F::@x")),
    "output_of is no array": linear(returns(), attributes=LINEAR.replace("[@F::@y]", "@F::@y")),
    "input_of holds no reference": linear(returns(), attributes=LINEAR.replace("[@F::@x]", "[1]")),
    "output_of holds a flat reference": linear(returns(), attributes=LINEAR.replace("[@F::@y]", "[@y]")),
    "output_of holds three parts": linear(returns(), attributes=LINEAR.replace("F::@y", "F::@y::@z")),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(name: str) -> None:
    with pytest.raises(ParseError) as error:
        parse(MALFORMED[name], "file.mlir")
    assert str(error.value).startswith("file.mlir:")


def test_a_value_of_another_graph() -> None:
    """Graphs are isolated: a graph can use a value of another graph only by a reference."""
    with pytest.raises(ParseError, match="use of undeclared SSA value name"):
        parse(f"{graph(negate('%0', '%x'), returns('%0'))}\n{graph(returns('%0'), name='H')}")


def test_two_graphs_of_one_name() -> None:
    with pytest.raises(TiducError, match="symbol @G is ambiguous|redefinition of symbol"):
        resolve(parse(graph(returns()) + "\n" + graph(returns())))
