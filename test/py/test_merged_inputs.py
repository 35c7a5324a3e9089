"""The inputs of the graph that `materialize_merge` returns: which there are, and in which order."""

import pytest
from harness.stages import EXP_AX, F64, external, graph, merged, named, view_of

from tiduc.dialect.errors import ResolveError
from tiduc.dialect.mlir.context import parse
from tiduc.passes.linearize import linearize
from tiduc.passes.rules import OPSET


def keys(text: str) -> str:
    return text.split("inputs = [")[1].split("]")[0]


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [(["a", "x"], "@a, @x"), (["x", "a"], "@x, @a"), (["x"], "@x, @a"), ([], "@a, @x")],
)
def test_order_of_inputs(inputs: list[str], expected: str) -> None:
    """The merged graph has the requested inputs first, in the requested order. Other inputs that it needs follow."""
    assert keys(merged(view_of(EXP_AX), [("F0", "p3")], inputs)) == expected


def test_other_inputs_come_in_the_order_in_which_they_were_made() -> None:
    """Inputs that were not requested are sorted by dependency.

    The inputs of a graph follow those of the graphs that it refers to, whatever the order of the graphs in the module.
    """
    later = external("%e", "@F0::@p3") + f"%0 = stablehlo.add %e, %u : {F64}\n" + named("%0", "g")
    view = view_of(graph("G", ["u"], later, ["%0"]) + EXP_AX)
    assert keys(merged(view, [("G", "g")], [])) == "@a, @x, @u"
    tangents = linearize(view, [("G", "g")], ["u", "x"], OPSET)
    assert keys(merged(view, tangents.outputs, [])) == ", ".join(
        ["@a", "@x", *(f"@{x}" for x in tangents.keys)]
    )
    assert keys(merged(view, tangents.outputs, ["x"])).startswith("@x, @a, @")


def test_dead_inputs() -> None:
    view = view_of(EXP_AX + graph("G", ["u"], "", ["%u"]))
    wanted = [("F0", "p3")]
    assert keys(merged(view, wanted, ["u", "x", "a"])) == "@u, @x, @a"
    assert keys(merged(view, wanted, ["u", "x", "a"], keep_dead_inputs=False)) == "@x, @a"
    assert keys(merged(view, [("F0", "x")], [])) == "@x"


def test_a_bound_input_is_no_input() -> None:
    seed = graph("S", [], f"%0 = stablehlo.constant dense<2.0> : {F64}\n" + named("%0", "two"), ["%0"])
    view = view_of(EXP_AX + seed + '"tidu.bind"() {input = @a, value = @S::@two} : () -> ()')
    assert keys(merged(view, [("F0", "p3")], [])) == "@x"
    assert keys(merged(view, [("F0", "p3")], ["x"])) == "@x"


def test_an_unknown_input() -> None:
    with pytest.raises(ResolveError, match="unknown input @z; the inputs are @"):
        merged(view_of(EXP_AX), [("F0", "p3")], ["z"])


def test_many_inputs() -> None:
    """The number of comparisons of keys grows linearly with the number of inputs."""
    compared: list[object] = []

    class Key(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            compared.append(other)
            return str.__eq__(self, other)

    names = [f"x{i}" for i in range(300)]
    view = view_of(graph("F0", names, "", [f"%{x}" for x in names]))
    merged(view, [("F0", x) for x in names], [Key(x) for x in names])
    assert 0 < len(compared) < 20 * len(names)


def test_name_and_masks() -> None:
    text = merged(view_of(EXP_AX), [("F0", "p3")], ["a", "x"], name="flat")
    assert 'sym_name = "flat"' in text and "tidu.merged" in text
    parse(text)  # the parser's verifier also checks the masks
    view = view_of(EXP_AX)
    linear = linearize(view, [("F0", "p3")], ["x"], OPSET)
    text = merged(view, list(linear.outputs), ["a", "x"])
    assert text.count("tidu.active = ") == 2
    parse(text)
