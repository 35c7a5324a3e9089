"""Pictures of graphs: reading, folding and drawing. test_view_page.py opens the page in a browser."""

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import click.testing
import pytest
from harness.example_files import EXAMPLES
from harness.pictures import EXP, TWICE, picture_of, view
from harness.processes import command

from tiduc.activity import find_activity
from tiduc.cli import run
from tiduc.dialect.mlir.context import parse, stage
from tiduc.view.dot import dot, quoted
from tiduc.view.draw import draw
from tiduc.view.read import read_picture
from tiduc.view.scene import Picture
from tiduc.view.text import text

# ---- reading -----------------------------------------------------------------------------------------------


def test_boxes_and_arrows() -> None:
    scene = picture_of(EXP).scenes["@main"]
    names = {box.id: box.name for box in scene.boxes.values()}
    assert list(names.values()) == ["a", "x", "multiply", "exponential", "subtract", "divide", "result0"]
    arrows = {(names[a.source], names[a.target], a.slot) for a in scene.arrows}
    assert ("a", "multiply", 0) in arrows and ("x", "multiply", 1) in arrows
    assert ("exponential", "subtract", 1) in arrows and ("exponential", "divide", 1) in arrows
    assert len(arrows) == 7
    subtract = next(box for box in scene.boxes.values() if box.name == "subtract")
    assert subtract.detail == "(0.5, ·)" and subtract.types == ("4xf64",) and subtract.place == "-:6:8"


def test_activity() -> None:
    boxes = picture_of(EXP, [1]).scenes["@main"].boxes.values()
    assert [box.name for box in boxes if box.activity == "inactive"] == ["a"]
    assert not [
        box for box in picture_of(EXP, []).scenes["@main"].boxes.values() if box.activity != "inactive"
    ]


def test_text_shows_shared_values_once() -> None:
    assert text(picture_of(EXP), ["@main"], "-") == (
        "function @main  :1:1\n"
        "  result0 4xf64\n"
        "    %3 divide 4xf64  active  :7:8\n"
        "      %2 subtract 4xf64  (0.5, ·)  active  :6:8\n"
        "        %1 exponential 4xf64  active  :5:8\n"
        "          %0 multiply 4xf64  active  :4:8\n"
        "            a 4xf64  active\n"
        "            x 4xf64\n"
        "      %1 exponential  [seen]\n"
    )


def test_externals_lead_to_the_graph_that_owns_them(tmp_path: Path) -> None:
    (tmp_path / "f.mlir").write_text(EXP)
    shown = view(str(tmp_path / "f.mlir"), "--derivative", "jvp", "--wrt", "x")
    assert "linear graph @L0" in shown and "@main::@a  [external]" in shown
    drawn = view(str(tmp_path / "f.mlir"), "--derivative", "jvp", "--format", "dot")
    dashed = [line for line in drawn.splitlines() if "->" in line and 'style="dashed"' in line]
    assert len(dashed) >= 3
    assert drawn.count("subgraph cluster_") == 2


def test_a_bound_input_stands_for_a_value(tmp_path: Path) -> None:
    shown = view(str(EXAMPLES / "mlp_f32.mlir"), "--derivative", "grad")
    assert "∂ @main::@v0 = 1" in shown
    (tmp_path / "f.mlir").write_text(TWICE)  # the cotangents of both reads of x are summed first
    shown = view(str(tmp_path / "f.mlir"), "--derivative", "vjp")
    assert "::@v0  [bind]" in shown and "graph @S0" in shown


def test_regions_and_calls_open() -> None:
    shown = view(str(EXAMPLES / "newton.mlir"))
    assert "while: cond" in shown and "while: do" in shown and "a f64  from outside  active" in shown
    main = picture_of((EXAMPLES / "newton.mlir").read_text()).scenes["@main"]
    read = [
        (main.boxes[a.source].name, main.boxes[a.target].name) for a in main.arrows if a.kind == "captured"
    ]
    assert read == [("a", "while")]
    shown = view(str(EXAMPLES / "transformer_f32.mlir"))
    assert shown.count("\nfunction @_var ") == 1  # one scene, although it is called three times


def test_a_reference_to_another_file(tmp_path: Path) -> None:
    (tmp_path / "f.mlir").write_text(EXP)
    done = command(tmp_path, "jvp", "f.mlir", "--stop-after", "linearize").stdout
    linear = done[done.index('"tidu.graph"', done.index('"tidu.graph"') + 1) :]
    (tmp_path / "l.mlir").write_text("module {\n" + linear)
    assert "@main::@v0" in view(str(tmp_path / "l.mlir"))


def test_a_reference_to_itself_is_shown_as_one(tmp_path: Path) -> None:
    """`view` draws a reference to itself, which other commands refuse."""
    (tmp_path / "f.mlir").write_text(CIRCLE)
    assert "a reference to itself" in view(str(tmp_path / "f.mlir"))


CIRCLE = """
"tidu.graph"() ({
  %0 = "tidu.external"() {ref = @G::@y} : () -> tensor<f32>
  "tidu.name"(%0) {sym_name = "x"} : (tensor<f32>) -> ()
  stablehlo.return %0 : tensor<f32>
}) {sym_name = "F", inputs = []} : () -> ()
"tidu.graph"() ({
  %0 = "tidu.external"() {ref = @F::@x} : () -> tensor<f32>
  "tidu.name"(%0) {sym_name = "y"} : (tensor<f32>) -> ()
  stablehlo.return %0 : tensor<f32>
}) {sym_name = "G", inputs = []} : () -> ()
"""


def test_a_long_chain_is_printed() -> None:
    count = 3000
    ops = "".join(f"  %{i + 1} = stablehlo.sine %{i} : tensor<f32>\n" for i in range(count))
    source = f"func.func @main(%0: tensor<f32>) -> tensor<f32> {{\n{ops}  return %{count} : tensor<f32>\n}}\n"
    lines = text(picture_of(source), ["@main"]).splitlines()
    assert len(lines) == count + 3 and max(map(len, lines)) < 140


# ---- Graphviz ----------------------------------------------------------------------------------------------


def test_svg_has_every_box() -> None:
    picture = picture_of(EXP)
    (svg,) = draw([dot(picture, ["@main"], "-")])
    root = ElementTree.fromstring(svg)
    ids = {node.get("id") for node in root.iter()}
    assert set(picture.scenes["@main"].boxes) <= ids
    words = "".join(root.itertext())
    for word in ("exponential", "4xf64", ":5:8", "(0.5, ·)", "a tangent reaches it"):
        assert word in words


def test_odd_names() -> None:
    name = '<"a&b\\">'
    source = EXP.replace('"a"', '"<\\22a&b\\5C\\22>"').replace("@main", '@"ma <in>"')
    picture = picture_of_named(source, "ma <in>")
    (svg,) = draw([dot(picture, picture.shown * 2)])
    words = "".join(ElementTree.fromstring(svg).itertext())
    assert name in words and "function @ma <in>" in words
    assert quoted('a"b\\') == '"a\\"b\\\\"'


@stage
def picture_of_named(source: str, name: str) -> Picture:
    module = parse(source, "f.mlir")
    return read_picture(module, find_activity(module, {name: [0]}))


def test_without_graphviz(tmp_path: Path) -> None:
    """Without Graphviz, text and DOT can be written. For a picture, the message names the package to install."""
    (tmp_path / "pygraphviz.py").write_text("raise ImportError('not here')\n")
    import os

    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    shown = [sys.executable, "-m", "tiduc", "view", str(EXAMPLES / "newton.mlir"), "-o"]
    done = subprocess.run([*shown, "a.dot"], cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0 and (tmp_path / "a.dot").is_file()
    done = subprocess.run(
        [*shown, "a.svg"], cwd=tmp_path, env=environment, check=False, capture_output=True, text=True
    )
    assert done.returncode == 1 and "pip install 'tiduc[view]'" in done.stderr
    assert not (tmp_path / "a.svg").exists()


# ---- the command -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["-o", "a.gif"],
            "a.gif must end in one of .svg, .png, .html, .dot, .txt, or name the format with --format",
        ),
        (["--graph", "nobody"], "no graph nobody; there are @main"),
        (["--entry", "nobody"], "no function or graph @nobody; there are @main"),
        (["--stop-after", "linearize"], "--stop-after linearize needs --derivative"),
        (["--derivative", "jvp", "--stop-after", "linear_transpose"], "jvp has no stage linear_transpose"),
        (["--wrt", "nobody"], "unknown input 'nobody' in wrt"),
    ],
)
def test_refusals(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["view", str(EXAMPLES / "mlp_f32.mlir"), *arguments]) == 1
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "stop", ["import", "linearize", "linear_transpose", "materialize_merge", "structure", "lower"]
)
def test_after_every_stage(stop: str, capsysbinary: Any) -> None:
    assert run(["view", str(EXAMPLES / "newton.mlir"), "--derivative", "vjp", "--stop-after", stop]) == 0
    shown = capsysbinary.readouterr().out.decode()
    assert ("linear" in shown) == (stop != "import")
    assert "@main" in shown


@pytest.mark.parametrize("derivative", ["jacobian", "hessian", "laplacian", "jet"])
def test_whole_derivatives(derivative: str, capsysbinary: Any) -> None:
    file = str(EXAMPLES / "mlp_f32.mlir")
    assert run(["view", file, "--derivative", derivative, "--wrt", "params['b3']"]) == 0
    shown = capsysbinary.readouterr().out.decode()
    assert ("series" if derivative == "jet" else "graph @J1") in shown


def test_png(tmp_path: Path) -> None:
    out = tmp_path / "a.png"
    assert run(["view", str(EXAMPLES / "mlp_f32.mlir"), "--derivative", "grad", "-o", str(out)]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")


def test_a_graph_too_large_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr("tiduc.view.dot.MOST", 5)
    assert run(["view", str(EXAMPLES / "mlp_f32.mlir"), "--format", "svg"]) == 1
    assert "choose a smaller graph with --graph" in capsys.readouterr().err


def test_nothing_to_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty.mlir"
    empty.touch()
    assert run(["view", str(empty)]) == 1
    assert capsys.readouterr().err == f"{empty}: error: no function and no graph to show\n"


def test_completion() -> None:
    from click.shell_completion import BashComplete

    from tiduc.cli import tiduc

    complete = BashComplete(tiduc, {}, "tiduc", "_TIDUC_COMPLETE")
    assert "view" in [item.value for item in complete.get_completions([], "vi")]
    assert [item.value for item in complete.get_completions(["view", "--format"], "h")] == ["html"]
    shown = click.testing.CliRunner().invoke(tiduc, ["view", "--help"])
    assert shown.exit_code == 0 and "Show a program as a picture (svg, png)" in shown.output


# ---- memory ------------------------------------------------------------------------------------------------


def test_memory_is_a_chart(tmp_path: Path) -> None:
    """The chart of memory has a point and a label for each peak that `explain --memory` lists.

    The labels do not overlap.
    """
    file = str(EXAMPLES / "convnet_f32.mlir")
    rows = view(file, "--memory").splitlines()[1:]
    assert run(["view", file, "--memory", "-o", str(tmp_path / "memory.svg")]) == 0
    svg = "{http://www.w3.org/2000/svg}"
    root = ElementTree.parse(tmp_path / "memory.svg").getroot()
    assert len(root.findall(f".//{svg}ellipse")) == len(rows) > 1
    labels = [text for text in root.iter(f"{svg}text") if "B, " in (text.text or "")]
    assert [label.text for label in labels] == [
        ", ".join(row.split("  #")[0].strip().split("  ")) for row in rows
    ]
    heights = [float(label.get("y", "")) for label in labels]
    assert min(b - a for a, b in zip(heights, heights[1:], strict=False)) > 13
    assert view(file, "--memory", "--derivative", "jvp", "--format", "dot").startswith("graph memory {")


def test_memory_is_that_of_a_whole_derivative(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["view", str(EXAMPLES / "mlp_f32.mlir"), "--memory", "--stop-after", "linearize"]) == 1
    assert "--memory shows a whole derivative" in capsys.readouterr().err
