"""The documentation site builds without warnings, its links have targets, and the reference covers all public names.

test_docs.py tests the code in the pages.
"""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path

import pytest

import tiduc

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("mkdocs")
pytest.importorskip("mkdocstrings")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


class Page(HTMLParser):
    """Collects the links, the loaded files and the anchors of an HTML page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        said = {name: value for name, value in attributes if value is not None}
        self.ids |= {said[name] for name in ("id", "name") if name in said}
        if tag == "a" and "href" in said:
            self.links.append(said["href"])
        if tag in ("img", "script") and "src" in said:
            self.loaded.append(said["src"])
        if tag == "link" and said.get("rel") == "stylesheet":
            self.loaded.append(said.get("href", ""))


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text("utf-8")) for path in site.rglob("*.html") if path.name != "404.html"}


@pytest.mark.slow
def test_every_page_is_there(pages: dict[Path, Page], site: Path) -> None:
    for page in (ROOT / "docs").glob("*.md"):
        assert site / f"{page.stem}.html" in pages, page.name
    navigation = pages[site / "index.html"].links
    for page in (ROOT / "docs").glob("*.md"):
        assert page.stem == "index" or f"{page.stem}.html" in navigation, (
            f"{page.name} is not in the navigation"
        )


@pytest.mark.slow
def test_links(pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for link in page.links:
            target, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            file = (path.parent / target).resolve() if target else path
            assert file.is_file(), f"{path.name}: {link}"
            if anchor and file in pages:
                assert anchor in pages[file].ids, f"{path.name}: {link}"


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for loaded in page.loaded:
            assert not re.match(r"([a-z]+:)?//", loaded), f"{path.name}: {loaded}"
            assert (path.parent / loaded.split("?")[0]).resolve().is_file(), f"{path.name}: {loaded}"


@pytest.mark.slow
def test_the_reference_has_every_public_name(pages: dict[Path, Page]) -> None:
    ids = set().union(*(page.ids for page in pages.values()))
    for name in tiduc.__all__:
        value = getattr(tiduc, name)
        module = getattr(value, "__module__", None)
        if module is None or not module.startswith("tiduc.") or not hasattr(value, "__qualname__"):
            continue  # an instance (such as an op set), which has no qualified name
        assert getattr(import_module(module), value.__qualname__) is value
        assert f"{module}.{value.__qualname__}" in ids, f"{module}.{name} is in no page of docs/site.py"


def test_navigation() -> None:
    """The navigation in mkdocs.yml lists each page of docs, except docs/upstream, and no other page."""
    _, _, settings = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")
    named = re.findall(r"(?: |^)([\w/]+\.md)$", settings.partition("\n\n")[0], re.MULTILINE)
    written = (page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md"))
    assert sorted(named) == sorted(map(str, (page for page in written if page.parts[0] != "upstream")))


def test_the_picture_is_of_the_example() -> None:
    """The stored picture has the boxes that `tiduc view` draws of the example.

    The positions of the boxes are not compared, because Graphviz chooses them.
    """
    from tiduc.cli.view import _picture
    from tiduc.passes.rules import OPSET

    picture = _picture(
        str(ROOT / "examples" / "transformer_f32.mlir"), None, None, (), None, OPSET, False, "auto", True
    )
    drawn = ElementTree.parse(ROOT / "docs" / "pictures" / "transformer.svg").getroot()
    names = {node.get("id") for node in drawn.iter() if "node" in (node.get("class") or "").split()}
    assert names - {"node1"} >= set(picture.scenes["@main"].boxes)
    words = " ".join("".join(drawn.itertext()).split())
    for box in picture.scenes["@main"].boxes.values():
        assert " ".join(box.name.split()) in words, "run the command in docs/view.md"
