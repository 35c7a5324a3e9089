"""Folding of repeated ops into boxes: no op is lost, and the chosen repetitions save the most boxes."""

import itertools
import re
from pathlib import Path

import pytest
from harness.example_files import EXAMPLES
from harness.pictures import EXP, blocks_of, layers, picture_of, view
from hypothesis import given
from hypothesis import strategies as st

import tiduc
from tiduc.activity import find_activity, functions
from tiduc.cli import run
from tiduc.view.dot import dot
from tiduc.view.draw import draw
from tiduc.view.first_page import first_page
from tiduc.view.fold import fold
from tiduc.view.read import read_picture
from tiduc.view.repeats import find_repeat
from tiduc.view.scene import OPS, Picture


def test_layers_are_folded() -> None:
    picture = picture_of(layers(12), range(13), folded=True)
    scene = picture.scenes["@main"]
    folds = [box for box in scene.boxes.values() if box.kind == "fold"]
    assert len(folds) == 12 and {box.opens for box in folds} == {("@main/A",)}
    assert not [box for box in scene.boxes.values() if box.kind == "op"]
    inner = picture.scenes["@main/A"]
    assert [box.name for box in inner.boxes.values() if box.kind == "op"] == [
        "dot_general", "tanh", "exponential", "negate", "multiply", "divide", "add"
    ]  # fmt: skip
    # Layers are separated at points where only one value is passed on.
    assert len([box for box in inner.boxes.values() if box.kind == "output"]) == 1
    assert len([a for a in scene.arrows if a.target == folds[1].id]) == 2


def test_many_layers_in_a_row_are_one_box() -> None:
    picture = picture_of(layers(70), range(71), folded=True)
    scene = picture.scenes["@main"]
    (row,) = [box for box in scene.boxes.values() if box.kind == "fold"]
    assert row.name == "A, 70 in a row" and len(scene.boxes) < 100
    inner = picture.scenes[row.opens[0]]
    folds = [box for box in inner.boxes.values() if box.kind == "fold"]
    assert len(folds) == 70 and {box.opens for box in folds} == {("@main/A",)}
    assert folds[3].detail.endswith("; 1 input") and folds[3].text == "reads w3"
    there = {box.id for box in picture.boxes()}
    assert all(
        a.source in there and a.target in of.boxes for of in picture.scenes.values() for a in of.arrows
    )
    (svg,) = draw([dot(picture, ["@main"])])
    assert "70 in a row" in svg


@pytest.mark.parametrize(
    "command",
    [
        ["sgd_mlp.mlir"],  # has independent parts, which are drawn side by side
        ["convnet_f32.mlir", "--derivative", "jet"],  # has several parts that read twenty inputs
        ["convnet_f32.mlir", "--derivative", "hvp"],  # has many arrows from other graphs
    ],
)
def test_first_pages_fit_a_window(command: list[str], tmp_path: Path) -> None:
    """With labels of 10 pixels, the first page fits into the drawing area of a window with 1600 x 1000 pixels."""
    page = tmp_path / "f.html"
    assert run(["view", str(EXAMPLES / command[0]), *command[1:], "-o", str(page)]) == 0
    drawn = page.read_text().partition('"drawn"')[2]
    size = re.search(r"viewBox=[^ ]+ [^ ]+ ([\d.]+) ([\d.]+)", drawn)
    assert size is not None and float(size[1]) <= 1300 and float(size[2]) <= 960


def test_still_pictures_show_ops() -> None:
    """A PNG of a VJP shows the ops of the program and of the transpose.

    A page shows parts instead, because a reader can open them.
    """
    program = tiduc.load(EXAMPLES / "mlp_f32.mlir")
    derived, module = program.vjp(), program.view.module
    assert derived.graphs is module
    names = [f"@{op}" for op in functions(module) if not op.startswith("S")]
    for still in (True, False):
        picture = read_picture(module, find_activity(module, {"main": range(8)}), "")
        fold(picture)
        first = first_page(picture, names, still=still)
        shown = [first.picture.scenes[name] for name in ("@main", "@T0")]
        boxes = [[box.name for box in scene.boxes.values() if box.kind in OPS] for scene in shown]
        parts = [name for name in itertools.chain(*boxes) if name.startswith("part")]
        assert bool(parts) != still
        if still:
            assert boxes[0].count("dot_general") == 3 and boxes[1].count("dot_general") == 6
        else:  # the parts of each scene are numbered consecutively
            for names_of in boxes:
                numbers = [re.fullmatch(r"part (\d+) of (\d+)", name) for name in names_of]
                found = [tuple(map(int, match.groups())) for match in numbers if match]
                assert found == [(i + 1, len(found)) for i in range(len(found))]


def test_very_many_externals_are_counted(tmp_path: Path) -> None:
    (tmp_path / "f.mlir").write_text(layers(90))
    drawn = view(str(tmp_path / "f.mlir"), "--derivative", "jvp", "--graph", "L0", "--format", "dot")
    notes = [line for line in drawn.splitlines() if "values" in line and "shape=plain" in line]
    assert notes and all('label="@main: ' in line for line in notes)


def test_folds_within_folds() -> None:
    """Folds are nested: if a sequence of ops occurs twice in each layer, the scene of the layer contains the box of the
    sequence.
    """
    picture = picture_of(blocks_of(6), (0,))
    fold(picture, large=10)
    kinds = {box.opens for box in picture.scenes["@main"].boxes.values() if box.kind == "fold"}
    assert len(kinds) == 1
    (layer,) = kinds.pop()
    assert {box.kind for box in picture.scenes[layer].boxes.values()} >= {"fold"}


def test_folding_loses_no_op() -> None:
    source = (EXAMPLES / "transformer_f32.mlir").read_text()
    whole, folded = picture_of(source, range(15)), picture_of(source, range(15), folded=True)

    def ops(picture: Picture, name: str) -> int:
        boxes = picture.scenes[name].boxes.values()
        return sum(
            ops(picture, box.opens[0]) if box.kind == "fold" else box.kind in ("op", "call") for box in boxes
        )

    quiet = sum(
        box.name in ("broadcast_in_dim", "convert", "reshape") for box in whole.scenes["@main"].boxes.values()
    )
    assert ops(folded, "@main") == ops(whole, "@main") - quiet
    assert len(folded.scenes["@main"].boxes) < 60  # the boxes that are visible at the same time
    ids = [box.id for box in folded.boxes()]
    assert len(ids) == len(set(ids))
    there = set(ids)
    for scene in folded.scenes.values():
        assert all(arrow.source in there and arrow.target in scene.boxes for arrow in scene.arrows)


def test_small_graphs_are_left_alone() -> None:
    assert picture_of(EXP, folded=True).scenes == picture_of(EXP).scenes


def worth(letters: str) -> int:
    """The largest number of letters that folding one repeated substring of at least two letters can save, by exhaustive
    search.
    """
    best = 0
    for length in range(2, len(letters) // 2 + 1):
        for start in range(len(letters) - length + 1):
            best = max(best, (letters.count(letters[start : start + length]) - 1) * length)
    return best


@given(st.text("abc", max_size=24))
def test_repeats(letters: str) -> None:
    actual = find_repeat(letters, 2)
    assert (actual.worth if actual else 0) == worth(letters)
    if actual is not None:
        stretches = {letters[s : s + actual.length] for s in actual.starts}
        assert len(stretches) == 1
        assert all(b - a >= actual.length for a, b in itertools.pairwise(actual.starts))


def test_a_repeat_is_cut_where_it_costs_least() -> None:
    actual = find_repeat("xabcabcabcy", 2, lambda start, end: 0 if "xabcabcabcy"[start] == "b" else 1)
    assert actual is not None and actual.length == 3
    assert find_repeat("abcde", 2) is None and find_repeat("", 2) is None
