"""Tests the documentation pages: generated pages are up to date, links have targets, and code blocks run.

The language of a code block determines the test:

sh       The commands must succeed. Each page has its own directory, which contains `examples`. `tiduc` runs in forks of
         one process, as in the lit tests.
python   The code must run, in the directory of the page. A block that begins with `# FILE.py` is not run; it must be
         an excerpt of that file.
mlir     The program must be valid. A block with a RUN line must pass lit.
text     The block must be the output of the preceding block of sh or python.
shell    The block is not tested.

If a block needs a framework that is not installed, the rest of the page is skipped.
"""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tiduc.dialect.mlir.context import parse

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), ROOT / "examples" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NOTES = sorted((ROOT / "docs").glob("decisions/*.md"))  # pages without code
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
LIT = ROOT / "test" / "lit"
SCRIPT = re.compile(r"(?:sh|python) ((?:examples|test|docs)/[\w./]+)")
"""Matches commands that run scripts of the repository. Tests only check that these scripts exist.

The scripts set up environments, run for minutes, or write into the repository.
"""

FRAMEWORK = re.compile(r"^import (onnx|torch)$", re.MULTILINE)
"""Imports of frameworks that may not be installed."""

LONG = {
    *(
        "control_flow",
        "devices",
        "eager",
        "embedding",
        "from_jax",
        "from_onnx",
        "iree",
        "jacobians",
        "memory",
    ),
    *("models", "orders", "potentials", "python", "trace", "training"),
}
"""Pages whose blocks compile programs for more than two seconds in total."""

EXCERPT = re.compile(r"# (\S+\.py)\n")
IMPORTED = ("numpy", "tiduc.program", "tiduc.backends.iree.backend", "jax.numpy", "jax.export")
"""Modules that the fork server imports in advance, because Python blocks import them directly or through `tiduc`."""

_FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


class Block(NamedTuple):
    """A fenced code block of a page."""

    line: int
    language: str
    code: str


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(text.count("\n", 0, match.start()) + 2, match[2], textwrap.dedent(match[3]))
        for match in _FENCED.finditer(text)
    ]


@cache
def generated() -> dict[str, str]:
    """The texts of the pages that docs/generate.py generates, by name of the page."""
    sys.path.insert(0, str(ROOT / "docs"))
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pages: dict[str, str] = module.pages()
    return pages


@pytest.mark.parametrize(
    "name", ["dialect.md", "ops.md", "passes.md", "cli.md", "api.md", "iree.md", "../tiduc/tables/help.json"]
)
def test_generated_pages_are_up_to_date(name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == generated()[name], "run python docs/generate.py"


def test_reports_to_iree_are_up_to_date() -> None:
    written = {
        f"upstream/{path.name}": path.read_text() for path in (ROOT / "docs" / "upstream").glob("*.md")
    }
    made = {name: text for name, text in generated().items() if name.startswith("upstream/")}
    assert written == made, "run python docs/generate.py"


@pytest.mark.parametrize("page", PAGES + NOTES, ids=[*NAMES, *(page.name for page in NOTES)])
def test_links(page: Path) -> None:
    for link in _LINK.findall(_FENCED.sub("", page.read_text())):
        assert (page.parent / link).exists(), link


@pytest.fixture(scope="module")
def commands() -> Iterator[dict[str, str]]:
    """Fixture: the environment for shell commands. In it, `tiduc` sends its command line to the fork server."""
    server = subprocess.Popen(
        [sys.executable, str(LIT / "fork_server.py"), *IMPORTED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with server:
        assert server.stdout is not None
        path = [str(LIT / "bin"), os.path.dirname(sys.executable), os.environ["PATH"]]
        socket = server.stdout.readline().strip()
        yield {
            "PATH": os.pathsep.join(path),
            "TIDUC_FORK_SERVER": socket,
            "TIDUC_FORK_PYTHON": sys.executable,
        }


def in_rings() -> Iterator[Any]:
    """Yields the pages as parameters. Pages whose blocks take long or need a framework are marked `more`."""
    for page, name in zip(PAGES, NAMES, strict=True):
        needs = page.stem in LONG or any(FRAMEWORK.search(block.code) for block in blocks(page))
        yield pytest.param(page, id=name, marks=[pytest.mark.more] * needs)


@pytest.mark.parametrize("page", list(in_rings()))
def test_blocks(page: Path, tmp_path: Path, commands: dict[str, str]) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    printed: str | None = None
    for block in blocks(page):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        if block.language == "text":
            assert printed is None or block.code == printed, where
            printed = None
        elif block.language == "sh":
            printed = run_shell(block.code, tmp_path, where, commands)
        elif block.language == "python":
            for framework in FRAMEWORK.findall(block.code if not EXCERPT.match(block.code) else ""):
                pytest.importorskip(framework, reason=f"{where} needs {framework}")
            printed = run_python(block.code, tmp_path, where, commands)
        else:
            printed = None
            if block.language == "mlir":
                check_mlir(block.code, tmp_path, where)


def run_shell(code: str, directory: Path, where: str, commands: dict[str, str]) -> str | None:
    """Runs the commands and returns their output. Returns None for a block of scripts, which are not run."""
    lines = [shlex.split(line, comments=True) for line in code.splitlines()]
    scripts = [SCRIPT.match(" ".join(words)) for words in lines]
    if any(scripts):
        for words, script in zip(lines, scripts, strict=True):
            assert script is not None, f"{where}: {' '.join(words)} must be in a separate block"
            assert (ROOT / script[1]).is_file(), f"{where}: no {script[1]}"
        return None
    return run(["sh", "-eu", "-c", code], directory, where, commands)


def run_python(code: str, directory: Path, where: str, commands: dict[str, str]) -> str | None:
    """Runs the code and returns its output. Returns None for an excerpt of a file, which is not run."""
    excerpt = EXCERPT.match(code)
    if excerpt:
        assert code[excerpt.end() :] in (ROOT / excerpt[1]).read_text(), f"{where}: not in {excerpt[1]}"
        return None
    return run([str(LIT / "bin" / "forked_python"), code], directory, where, commands)


def check_mlir(code: str, directory: Path, where: str) -> None:
    parse(code, where)
    if "RUN:" not in code:
        return
    suite = directory / "lit"
    if not suite.exists():
        suite.mkdir()
        for name in ("lit.cfg.py", "forked.py"):
            (suite / name).symlink_to(LIT / name)
    (suite / "block.mlir").write_text(code)
    run([sys.executable, "-m", "lit.main", "-v", str(suite)], directory, where)


def run(command: list[str], directory: Path, where: str, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{where}: {done.stdout}{done.stderr}"
    return done.stdout
