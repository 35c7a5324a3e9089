"""The page of `tiduc view -o OUT.html` in a headless browser: folds, search, pan, zoom, hover and links."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.example_files import EXAMPLES
from harness.processes import command

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, which is installed on this machine or by `playwright install chromium`."""
    playwright = pytest.importorskip("playwright.sync_api")
    there = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    with playwright.sync_playwright() as started:
        try:
            instance = started.chromium.launch(executable_path=there, args=["--no-sandbox"])
        except playwright.Error as error:
            pytest.skip(f"no Chromium here; playwright install chromium ({error.message.splitlines()[0]})")
        yield instance
        instance.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The paths of three pages: the transformer, the VJP of the perceptron, and the VJP of the transformer."""
    folder = tmp_path_factory.mktemp("pages")
    files = {}
    for name, arguments in {
        "transformer": ["transformer_f32.mlir"],
        "vjp": ["mlp_f32.mlir", "--derivative", "vjp"],
        "large": ["transformer_f32.mlir", "--derivative", "vjp"],
    }.items():
        files[name] = folder / f"{name}.html"
        assert command(EXAMPLES, "view", *arguments, "-o", str(files[name])).returncode == 0
    return files


@pytest.fixture
def open_page(browser: Any, pages: dict[str, Path]) -> Iterator[Any]:
    """A function that opens a page.

    The test fails if a script raises an error, or if the page requests another file.
    """
    wrong: list[str] = []
    context = browser.new_context(viewport={"width": 1400, "height": 900})

    def page_of(name: str) -> Any:
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        address = pages[name].as_uri()
        page.on(
            "request", lambda asked: wrong.append(asked.url) if not asked.url.startswith(address) else None
        )
        page.goto(address)
        return page

    yield page_of
    context.close()
    assert wrong == []


def view_box(page: Any) -> list[float]:
    return [float(x) for x in page.locator("#stage svg").get_attribute("viewBox").split()]


def box_named(page: Any, name: str) -> Any:
    return page.locator(f'#stage g.node[aria-label^="{name}"]').first


def test_the_initial_view(open_page: Any) -> None:
    page = open_page("transformer")
    assert "transformer_f32.mlir" in page.title()
    assert page.inner_text("#path") == "function @main"
    assert 8 <= page.locator("#stage g.node").count() <= 12
    assert "2x4x16x16xf32" in page.locator("#stage svg").text_content()


@pytest.mark.parametrize("name", ["transformer", "vjp", "large"])
def test_the_initial_view_fits_and_can_be_read(open_page: Any, name: str) -> None:
    page = open_page(name)
    page.set_viewport_size({"width": 1600, "height": 1000})
    shown = page.locator("#stage svg").evaluate(
        """svg => {
          const scale = svg.getScreenCTM().a, box = svg.viewBox.baseVal, drawing = svg.querySelector("g").getBBox();
          const sizes = [...svg.querySelectorAll("text")].map(text => scale * text.getAttribute("font-size"));
          return [Math.min(...sizes), box.width - drawing.width, box.height - drawing.height];
        }"""
    )
    smallest, right, below = shown
    assert smallest >= 10 and right >= 0 and below >= 0


def test_a_fold_names_its_own_operands(open_page: Any) -> None:
    page = open_page("transformer")
    box_named(page, "part 1 of 8").click()
    box_named(page, "A (1 of 3)").click()
    box_named(page, "params['ln1_scale'] 32xf32").wait_for()
    page.goto(re.sub("#.*", "#scene=%40main%2F7", page.url))
    box_named(page, "A (3 of 3)").click()
    box_named(page, "params['ln3_scale'] 32xf32").wait_for()
    assert box_named(page, "params['ln1_scale']").count() == 0


def test_a_fold_opens_and_closes(open_page: Any) -> None:
    page = open_page("transformer")
    box_named(page, "part 1 of 8").click()
    box_named(page, "A (1 of 3)").click()
    page.wait_for_function("location.hash.includes('by=')")
    assert page.inner_text("#path") == "function @main / A, 3 times in function @main / A (1 of 3)"
    box_named(page, "call @_var").click()
    page.wait_for_function(
        "document.getElementById('path').textContent === 'function @main / function @_var'"
    )
    page.keyboard.press("Escape")
    page.wait_for_function("document.getElementById('path').textContent.includes('3 times')")
    page.click("#path a >> nth=0")
    page.wait_for_function("document.getElementById('path').textContent === 'function @main'")


def test_search(open_page: Any) -> None:
    page = open_page("transformer")
    page.keyboard.press("/")
    page.keyboard.type("dot_general batch")
    assert page.inner_text("#count") == "2 boxes"
    page.keyboard.press("Enter")
    page.wait_for_selector("#stage .found")
    assert page.locator("#stage .found").get_attribute("aria-label").startswith("dot_general 2x4x16x16xf32")
    assert "over [3] x [3]" in page.inner_text("#about")
    page.fill("#search", "stablehlo.rsqrt")  # search opens the fold that contains the found op
    assert page.inner_text("#count") == "1 box"
    page.press("#search", "Enter")
    page.wait_for_function("document.getElementById('path').textContent.includes('3 times')")
    page.fill("#search", "no such op")
    assert page.inner_text("#count") == "0 boxes"


def test_pan_and_zoom(open_page: Any) -> None:
    page = open_page("transformer")
    first = view_box(page)
    page.mouse.move(800, 400)
    page.mouse.wheel(0, -400)
    page.wait_for_function(f"document.querySelector('#stage svg').viewBox.baseVal.width < {first[2] * 0.8}")
    zoomed = view_box(page)
    page.mouse.down()
    page.mouse.move(700, 300, steps=4)
    page.mouse.up()
    moved = view_box(page)
    assert moved[0] > zoomed[0] and moved[1] > zoomed[1] and moved[2:] == zoomed[2:]
    page.keyboard.press("0")
    assert view_box(page) == pytest.approx(first)
    page.click("#in")
    assert view_box(page)[2] < first[2]
    page.click("#fit")
    assert view_box(page) == pytest.approx(first)


def test_dragging_over_a_fold_does_not_open_it(open_page: Any) -> None:
    page = open_page("transformer")
    box = box_named(page, "part 3 of 8").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 60, y + 40, steps=4)
    page.mouse.up()
    assert page.inner_text("#path") == "function @main"


def test_hover(open_page: Any) -> None:
    page = open_page("transformer")
    box_named(page, "part 1 of 8").click()
    box_named(page, "gather").hover()
    tip = page.inner_text("#tip")
    assert "2x16x32xf32" in tip and "slice_sizes = [1, 32]" in tip and ":11:10" in tip
    far = box_named(page, "tokens")
    assert re.search(r"\bdim\b", far.get_attribute("class"))
    assert not re.search(r"\bdim\b", box_named(page, "params['embed']").get_attribute("class"))


def test_a_derivative_begins_beside_the_program(open_page: Any) -> None:
    page = open_page("vjp")
    assert page.inner_text("#path") == "all graphs"
    clusters = [box.bounding_box() for box in page.locator("#stage g.cluster").all()]
    primal, derivative = clusters[:2]
    assert primal["x"] + primal["width"] < derivative["x"]  # the graphs are side by side
    assert page.locator("#stage g.edge path[stroke-dasharray]").count() > 5
    # The transposed graph is drawn from bottom to top: the seed is below the cotangent of an input.
    seed, cotangent = (box_named(page, name).bounding_box() for name in ("T0.v0", "∂ @main::@params['w1']"))
    assert seed["y"] > cotangent["y"]


def test_externals_can_be_followed(open_page: Any) -> None:
    page = open_page("vjp")
    page.locator("#stage g.node.linear", has_text="part").last.click()
    page.wait_for_function("document.getElementById('path').textContent.includes('part')")
    assert "@main" in page.locator("#stage svg").text_content()


def test_large_derivatives_are_parts(open_page: Any) -> None:
    page = open_page("large")
    assert 14 <= page.locator("#stage g.node").count() <= 24
    assert "values" in page.locator("#stage svg").text_content()
    box_named(page, "linear graph @L0").click()
    page.wait_for_function("document.getElementById('path').textContent === 'all graphs / linear graph @L0'")
    assert "@main" in page.locator("#stage svg").text_content()
