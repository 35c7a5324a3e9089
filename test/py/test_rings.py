"""The test rings: which tests need PyTorch, the counts that sweeps print, and the page that a full run writes."""

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import counts
import pytest
import run_all as runner
from harness.frameworks import mark_torch, mark_vulkan
from harness.vulkan import skip_without_device
from sweeps import SWEEPS, Sweep

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def net() -> Any:
    return pytest.importorskip("torch")


def without() -> None:
    """A test that needs neither PyTorch nor a device."""


class Item:
    """A stand-in for a pytest item, with the attributes that the markers of rings read."""

    def __init__(
        self, function: Any, fixture: Any = None, marks: Sequence[str] = (), **parameters: Any
    ) -> None:
        self.function, self.module, self.marks = function, sys.modules[__name__], []
        named = {"net": [type("Definition", (), {"func": staticmethod(fixture)})]} if fixture else {}
        self._fixtureinfo = type("Info", (), {"name2fixturedefs": named})
        self.add_marker = self.marks.append
        self.get_closest_marker = lambda name: name if name in marks else None
        self.callspec = type("Cases", (), {"params": parameters})


def test_tests_of_pytorch_are_marked() -> None:
    def within() -> None:
        pytest.importorskip("torch")

    items = [Item(within), Item(without), Item(without, within)]
    mark_torch(items)
    assert [[mark.name for mark in item.marks] for item in items] == [["torch"], [], ["torch"]]


def test_tests_on_vulkan_are_of_the_second_ring() -> None:
    def always() -> None:
        skip_without_device("vulkan:llvmpipe")

    def on_any(target: str) -> None:
        skip_without_device(target)

    cases = ["vulkan:llvmpipe", "vulkan/sine", "cpu"]
    items = [Item(always), Item(without, always), Item(without), Item(always, marks=["slow"])]
    items += [Item(on_any, target=target) for target in cases] + [Item(without, target=cases[0])]
    mark_vulkan(items)
    marked = [[mark.name for mark in item.marks] for item in items]
    assert marked == [["more"], ["more"], [], [], ["more"], ["more"], [], []]


@pytest.mark.parametrize(
    "text, found",
    [
        ("compiled 7 programs\ncounts: 3 ok, 1 not comparable\n", {"ok": 3, "not comparable": 1}),
        (
            "=== 2 failed, 30 passed, 4 skipped in 4.10s (0:00:04) ===",
            {"failed": 2, "passed": 30, "skipped": 4},
        ),
        ("30 passed in 4.10s", {"passed": 30}),
        (counts.summary({"ok": 12, "wrong": 0}), {"ok": 12}),
        (counts.summary({}), {"programs": 0}),
        ("counts: 3 ok\n1, then 2 in 0.5 s\n", {"ok": 3}),
        ("killed", {}),
    ],
)
def test_counts_are_read(text: str, found: dict[str, int]) -> None:
    assert counts.counts_in(text) == found


def swept(code: str, **more: Any) -> runner.Outcome:
    sweep = Sweep("example", ("-c", code), ("-c", code), **more)
    return runner.run(sweep, False, 3, Path("journal"))


@pytest.mark.parametrize(
    "code, failed",
    [
        ("print('counts: 3 ok')", False),
        ("print('counts: 3 ok, 1 refused')", False),
        ("print('counts: 3 ok, 1 wrong')", True),
        ("print('counts: 3 ok'); raise SystemExit(1)", True),
        ("print('3 ok')", True),  # no line "counts: ...", because the sweep ended early
    ],
)
def test_sweeps_that_fail(code: str, failed: bool) -> None:
    assert swept(code).failed is failed


def test_the_page_keeps_the_rows_of_other_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = SWEEPS[:2]
    outcomes = [
        runner.Outcome(each.name, "0123456789", "2026-11-28", 60, 0, {"ok": n, "refused": 2, "n/a": 5})
        for n, each in enumerate((first, second), 3)
    ]
    page = runner.page(
        outcomes[:1], runner.page(outcomes[1:], f"# Old\n\n## Partial runs\n\n| `{first.name}` | now |\n")
    )
    assert page.endswith(f" |\n\n## Partial runs\n\n| `{first.name}` | now |\n") and "Old" not in page
    assert f"| `{first.name}` | 2026-11-28 | 0123456789 | 3 | 2 | 0 | 5 n/a | 60 s |\n" in page
    assert f"| `{second.name}` | 2026-11-28 | 0123456789 | 4 | 2 | 0 | 5 n/a | 60 s |\n" in page
    assert page.count("not run yet") == len(SWEEPS) - 2


def test_a_full_run_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second full run on the same commit runs the sweeps that failed, but not those that succeeded."""
    marker = tmp_path / "ran"
    code = f"open({str(marker)!r}, 'a').write('x'); print('counts: 1 ok')"
    sweeps = [
        Sweep("first", ("-c", code), ("-c", code)),
        Sweep("second", (), ("-c", "print('counts: 1 wrong')")),
    ]
    for _ in range(2):
        done = list(runner.outcomes(sweeps, True, 0, tmp_path))
        assert [each.failed for each in done] == [False, True]
    assert marker.read_text() == "x"


def test_a_sweep_that_cannot_run_here() -> None:
    lacking = Sweep("example", (), (), needs=("no_such_package",))
    (outcome,) = runner.outcomes([lacking], False, 0, ROOT)
    assert not outcome.failed and "needs no_such_package" in runner.row(outcome)


def test_each_sweep_is_listed() -> None:
    """Each sweep in test/sweep has a row in the table of its README.md, and `run_all.py` runs it."""
    rows = (ROOT / "test" / "sweep" / "README.md").read_text()
    for sweep in SWEEPS:
        assert "/" in sweep.name or f"| `{sweep.name.split()[0]}.py` |" in rows, sweep.name
        program = next((word for word in sweep.full if word.endswith(".py")), None)
        assert program is None or (ROOT / program).is_file()
    plugins = {"batch_rules", "jet_rules", "target_rules"}  # these are not scripts, because pytest runs them
    files = (ROOT / "test" / "sweep").glob("*.py")
    programs = {path.stem for path in files if "\nif __name__ ==" in path.read_text()} - {"run_all"}
    assert programs | plugins == {sweep.name.split()[0] for sweep in SWEEPS if "/" not in sweep.name}


TEXTS = ("stablehlo", "text", "whole", "workgroups", "flags")
"""The attributes of a program's source that depend on the target's CPU."""


def looks_at_this_machine(tree: ast.AST) -> Iterator[int]:
    """The line numbers at which a test requests a program's source for the CPU of this machine and inspects its
    text.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ASKING:
            target = next((each.value for each in node.keywords if each.arg == "target"), None)
            target = node.args[1] if len(node.args) > 1 else target
            if isinstance(target, ast.Constant) and target.value in ("cpu", "cpu-threads"):
                yield node.lineno
            if isinstance(target, ast.Name) and target.id == "target":  # a parameter, which may be `cpu`
                yield node.lineno
        if isinstance(node, ast.Attribute) and node.attr in TEXTS and isinstance(node.value, ast.Call):
            names = {each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)}
            if names & {"HERE", "THREADS_HERE"}:
                yield node.lineno


ASKING = ("source_of", "sources_of")


@pytest.mark.parametrize(
    "code, lines",
    [
        ("source_of(program).stablehlo", []),
        ("source_of(program, 'cpu')", [1]),
        ("x = 1\nsources_of(program, target='cpu-threads')", [2]),
        ("source_of(program, target).stablehlo", [1]),
        ("source_of(program, named(target)).stablehlo", []),
        ("run(source_of(program, HERE))", []),
        ("str(source_of(program, HERE).stablehlo)", [1]),
        ("source_of(program, 'cuda').flags", []),
    ],
)
def test_what_looks_at_this_machine(code: str, lines: list[int]) -> None:
    assert list(looks_at_this_machine(ast.parse(code))) == lines


def test_no_test_looks_at_text_for_this_machine() -> None:
    found = [
        f"{path.name}:{line}"
        for path in sorted((ROOT / "test" / "py").glob("test_*.py"))
        for line in looks_at_this_machine(ast.parse(path.read_text()))
    ]
    assert found == [], "name a CPU of harness/variants.py"


def test_no_test_changes_the_settings_of_jax_for_others() -> None:
    """No test changes settings of JAX for the whole process.

    Otherwise, later tests in the process would depend on it.
    """
    found = [
        path.name
        for path in sorted((ROOT / "test" / "py").rglob("*.py"))
        if re.search(r"\.update\(\s*.jax_enable_x64", path.read_text())
    ]
    assert found == [], "use jax.enable_x64, or the fixture double_precision"
