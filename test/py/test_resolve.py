"""`resolve`: references across graphs, modules and files, and errors with locations and names."""

from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from harness.compare import compare
from harness.stages import EXP_AX, F64, external, graph, named, numbers, reference, view_of

from tiduc.dialect.errors import RequestError, ResolveError, TiducError
from tiduc.dialect.mlir.context import parse, read
from tiduc.passes.linearize import linearize
from tiduc.passes.resolve import check, resolve
from tiduc.passes.rules import OPSET


def alias(name: str, ref: str, type_: str = F64) -> str:
    """The text of a graph that refers to a value of another graph, names it "v" and returns it."""
    return graph(name, [], external("%e", ref, type_) + named("%e", "v", type_), ["%e"], type_)


def files(folder: Path, **texts: str) -> list[Path]:
    paths = []
    for name, text in texts.items():
        paths.append(folder / f"{name}.mlir")
        paths[-1].write_text(text)
    return paths


# ---- targets of references


def test_a_reference_leads_to_the_definition() -> None:
    view = view_of(EXP_AX, alias("A", "@F0::@p3"), alias("B", "@A::@v"))
    assert view.value(("B", "v")) == view.value(("A", "v")) == view.value(("F0", "p3"))
    assert view.values([("B", "v"), view.value(("F0", "p2"))]) == view.values([("F0", "p3"), ("F0", "p2")])
    assert reference(view, view.value(("B", "v"))) == "@F0::@p3"


def test_the_same_key_is_the_same_input() -> None:
    view = view_of(EXP_AX, graph("G", ["x"], "", ["%x"]), alias("A", "@G::@x"))
    assert view.value(("G", "x")) == view.value(("F0", "x")) == view.value(("A", "v"))
    assert view.value(("G", "x")) != view.value(("F0", "a"))


def test_order_of_modules_and_graphs_does_not_matter() -> None:
    """A graph may be referenced before its definition, both in its own module and in other modules."""
    texts = [alias("B", "@A::@v") + alias("A", "@F0::@p3"), EXP_AX]
    for order in (texts, texts[::-1]):
        view = view_of(*order)
        compare(numbers(view, [("B", "v")], {"a": 0.0, "x": 2.0}), [1.0])


def test_graphs_may_refer_to_one_another() -> None:
    """Two graphs may refer to each other if their values do not depend on each other in a cycle."""
    one = graph(
        "A",
        ["x"],
        f"%0 = stablehlo.negate %x : {F64}\n"
        + named("%0", "n")
        + external("%e", "@B::@e")
        + f"%1 = stablehlo.negate %e : {F64}\n"
        + named("%1", "m"),
        ["%1"],
    )
    two = graph(
        "B", [], external("%n", "@A::@n") + f"%0 = stablehlo.abs %n : {F64}\n" + named("%0", "e"), ["%0"]
    )
    view = view_of(one + two)
    check(view)
    compare(numbers(view, [("A", "m")], {"x": -3.0}), [-3.0])


def test_nothing_is_copied_or_changed() -> None:
    modules = [parse(EXP_AX), parse(alias("A", "@F0::@p3"))]
    before = [str(module) for module in modules]
    view = resolve(*modules)
    check(view)
    view.values([("A", "v"), ("F0", "p2")])
    assert [str(module) for module in modules] == before


def test_names_need_not_be_identifiers() -> None:
    """Input keys and names of graphs and values may be any text, such as JAX's `params['w']`."""
    text = """
    "tidu.graph"() ({
    ^bb0(%0: tensor<f64>):
      %1 = stablehlo.negate %0 : tensor<f64>
      "tidu.name"(%1) {sym_name = "a result, \\22quoted\\22"} : (tensor<f64>) -> ()
      "stablehlo.return"(%1) : (tensor<f64>) -> ()
    }) {sym_name = "my graph", inputs = [@"params['w']"]} : () -> ()
    """
    view = view_of(text, alias("A", '@"my graph"::@"a result, \\22quoted\\22"'))
    linear = linearize(view, [("A", "v")], ["params['w']"], OPSET)
    compare(numbers(view, list(linear.outputs), {linear.keys[0]: 2.0}), [-2])
    assert view_of(str(view.module), alias("A", '@"my graph"::@"params[\'w\']"')).value(("A", "v"))


# ---- files


def test_search_path(tmp_path: Path) -> None:
    """If a referenced graph @NAME is defined in no module, it is read from the file NAME.mlir in the search path."""
    files(tmp_path, F0=EXP_AX, A=alias("A", "@F0::@p3"), Broken="not MLIR at all")
    view = resolve(parse(alias("Main", "@A::@v") + alias("Other", "@Broken::@v")), search_path=[tmp_path])
    compare(numbers(view, [("Main", "v")], {"a": 1.0, "x": 0.0}), [1.0])
    with pytest.raises(TiducError) as error:
        view.value(("Other", "v"))
    assert str(error.value).startswith(f"{tmp_path / 'Broken.mlir'}:1:1: error: ")


def test_a_graph_made_of_another_file(tmp_path: Path) -> None:
    """Linearizing a graph of another file adds a linear graph that refers to that file.

    The new names differ from the names in the file.
    """
    files(tmp_path, F0=EXP_AX, L0=graph("L0", [], "", []))
    view = resolve(parse(alias("Main", "@F0::@p3")), search_path=[str(tmp_path)])
    linear = linearize(view, [("Main", "v")], ["x"], OPSET)
    assert linear.name == "L1"
    text = str(view.module)
    assert "@F0::@p3" in text and 'sym_name = "F0"' not in text
    reloaded = resolve(parse(text), search_path=[tmp_path])
    check(reloaded)


def test_an_unnamed_value_of_a_file_that_is_only_read(tmp_path: Path) -> None:
    """Linearizing a value without a name in another file names the value in memory, and leaves the file unchanged."""
    (path,) = files(tmp_path, F0=graph("F0", ["x"], f"%0 = stablehlo.tanh %x : {F64}", ["%0"]))
    first, second = parse(graph("Main", [], "", [])), read(path)
    view = resolve(first, second)
    linear = linearize(view, [("F0", "x")], ["x"], OPSET)
    assert linear.outputs[0] is not None
    assert path.read_text() == graph("F0", ["x"], f"%0 = stablehlo.tanh %x : {F64}", ["%0"])


# ---- errors


def fails(path: Path, text: str, *more: str) -> str:
    """The message with which `check` refuses `text`, which is written to the file `path`, and the further texts
    `more`.
    """
    path.write_text(text)
    with pytest.raises(ResolveError) as error:
        check(resolve(read(path), *map(parse, more)))
    return str(error.value)


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        ("@F9::@p3", "unknown graph @F9"),
        ("@F0::@p9", "unknown value @p9 in graph @F0"),
        ("@A::@y", "reference @A::@y has type tensor<f64>, but the value is tensor<2xf64>"),
    ],
)
def test_bad_reference(tmp_path: Path, ref: str, message: str) -> None:
    path = tmp_path / "main.mlir"
    other = graph("A", ["y"], "", ["%y"], "tensor<2xf64>")
    error = fails(path, "\n\n" + alias("Main", ref), EXP_AX, other)
    assert error == f"{path}:5:12: error: {message}"


def test_a_reference_that_leads_back_to_itself(tmp_path: Path) -> None:
    path = tmp_path / "main.mlir"
    error = fails(path, alias("A", "@B::@v") + alias("B", "@C::@v") + alias("C", "@A::@v"))
    assert error.startswith(f"{path}:") and "leads back to itself" in error and "::@v" in error


def test_a_value_that_depends_on_itself(tmp_path: Path) -> None:
    def step(name: str, ref: str) -> str:
        body = external("%e", ref) + f"%0 = stablehlo.negate %e : {F64}\n" + named("%0", "v")
        return graph(name, [], body, ["%0"])

    path = tmp_path / "main.mlir"
    error = fails(path, step("A", "@B::@v") + step("B", "@A::@v"))
    assert error.startswith(f"{path}:") and "a value depends on itself through its references" in error
    with pytest.raises(ResolveError, match="depends on itself"):
        linearize(view_of(step("A", "@B::@v"), step("B", "@A::@v")), [("A", "v")], [], OPSET)


def test_an_ambiguous_graph(tmp_path: Path) -> None:
    one, two = tmp_path / "one.mlir", tmp_path / "two.mlir"
    for path in (one, two):
        path.write_text("\n" + alias("A", "@F0::@p3"))
    with pytest.raises(ResolveError) as error:
        resolve(read(one), read(two))
    assert str(error.value).startswith(f"{two}:2:1: error: symbol @A is ambiguous")
    assert str(one) in str(error.value)


def test_an_ambiguous_file(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        files(tmp_path / name, F0=EXP_AX)
    view = resolve(parse(alias("A", "@F0::@p3")), search_path=[tmp_path / "one", tmp_path / "two"])
    with pytest.raises(ResolveError) as error:
        view.value(("A", "v"))
    assert "symbol @F0 is ambiguous" in str(error.value)
    assert str(tmp_path / "one" / "F0.mlir") in str(error.value)
    assert str(tmp_path / "two" / "F0.mlir") in str(error.value)


def test_an_input_of_two_types(tmp_path: Path) -> None:
    path = tmp_path / "main.mlir"
    error = fails(path, EXP_AX + graph("G", ["x"], "", ["%x"], "tensor<2xf64>"))
    assert error.startswith(f"{path}:")
    assert "input @x is tensor<2xf64> in @G, but tensor<f64> in @F0" in error


def test_a_tangent_of_another_type(tmp_path: Path) -> None:
    linear = """
    "tidu.graph"() ({
    ^bb0(%dx: tensor<2xf64>):
      "stablehlo.return"(%dx) : (tensor<2xf64>) -> ()
    }) {sym_name = "L", inputs = [@dx], tidu.input_of = [@F0::@x], tidu.output_of = [@F0::@x],
        tidu.active_outputs = array<i1: true>} : () -> ()
    """
    error = fails(tmp_path / "main.mlir", EXP_AX + linear)
    assert "a tangent of type tensor<2xf64> in @L for @F0::@x, a tensor<f64>" in error
    error = fails(tmp_path / "main.mlir", EXP_AX + linear.replace("@F0::@x", "@F0::@p7"))
    assert "unknown value @p7 in graph @F0" in error and error.startswith(str(tmp_path))


# ---- bindings

SEED = graph("S", [], f"%0 = stablehlo.constant dense<2.0> : {F64}\n" + named("%0", "two"), ["%0"])


def bound(key: str, ref: str = "@S::@two") -> str:
    return f'"tidu.bind"() {{input = @{key}, value = {ref}}} : () -> ()\n'


def test_a_bound_input_is_its_value() -> None:
    view = view_of(EXP_AX + SEED + bound("a"))
    compare(numbers(view, [("F0", "p2")], {"x": 3.0}), [6.0])
    linear = linearize(view, [("F0", "p2")], ["x"], OPSET)
    compare(numbers(view, list(linear.outputs), {"x": 3.0, linear.keys[0]: 1.0}), [2.0])


def test_an_input_bound_to_a_function_of_another_input() -> None:
    """If the input a is bound to exp(b), derivatives with respect to b pass through the binding."""
    body = f"%0 = stablehlo.exponential %b : {F64}\n" + named("%0", "e")
    view = view_of(EXP_AX, graph("G", ["b"], body, ["%0"]), bound("a", "@G::@e"))
    linear = linearize(view, [("F0", "p2")], ["b"], OPSET)
    point = {"b": 0.0, "x": 3.0, linear.keys[0]: 5.0}
    compare(numbers(view, [("F0", "p2"), *linear.outputs], point), [3.0, 15.0])


@pytest.mark.parametrize("wrt", [["a"], ["a", "x"]])
def test_a_bound_input_has_no_tangent(wrt: list[str]) -> None:
    """Derivatives with respect to an input that is bound to another value are refused."""
    with pytest.raises(RequestError, match="wrt @a is bound to another value"):
        linearize(view_of(EXP_AX + SEED + bound("a")), [("F0", "p2")], wrt, OPSET)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (bound("z"), "unknown input @z"),
        (bound("a") + bound("a"), "input @a is bound a second time"),
        (bound("a", "@S::@three"), "unknown value @three in graph @S"),
        (bound("a", "@G::@y"), "binds tensor<2xf64> to input @a of type tensor<f64>"),
        (bound("a", "@F0::@p2"), "a value depends on itself"),
    ],
)
def test_bad_binding(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "main.mlir"
    error = fails(path, EXP_AX + SEED + graph("G", ["y"], "", ["%y"], "tensor<2xf64>") + text)
    assert message in error


def test_bindings_are_in_the_text() -> None:
    view: Any = view_of(EXP_AX + SEED + bound("a"))
    reloaded = view_of(str(view.module))
    compare(numbers(reloaded, [("F0", "p2")], {"x": 3.0}), [6.0])


def test_an_input_bound_to_itself(tmp_path: Path) -> None:
    error = fails(tmp_path / "main.mlir", EXP_AX + bound("a", "@F0::@a"))
    assert "@a" in error or "depends on itself" in error


def test_references_need_no_context(tmp_path: Path) -> None:
    (path,) = files(tmp_path, F0=EXP_AX)
    done: list[str] = []

    def without_context() -> None:  # a new thread has no current MLIR context
        view = resolve(read(path))
        done.append(str(view.reference(view.value(("F0", "p3")))))

    thread = Thread(target=without_context)
    thread.start()
    thread.join()
    assert done == ["@F0::@p3"]
