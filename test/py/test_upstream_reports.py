"""The bug reports in docs/upstream/ are reproducible: their commands, run verbatim and with only IREE, show the bug."""

import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cases.witnesses import Witness, find_witness
from iree.compiler.tools.binaries import find_tool

from tiduc.backends.iree.records import records

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "upstream"
BLOCK = re.compile(r"```text\n(.*?)```", re.DOTALL)

WITNESSES = {
    record.fault.witness
    for record in records()
    if record.fault.witness
    and not record.fault.untested
    and record.fault.kind in ("wrong", "crash")
    and find_witness(record.fault.witness).target == "cpu"
}


def report(name: str) -> Path:
    """The path of the bug report about the witness with this name."""
    return FOLDER / (re.sub(r"\W+", "_", name) + ".md")


REPORTS = sorted(name for name in WITNESSES if report(name).is_file())


def sampled() -> list[object]:
    """All reports as test parameters.

    Ten of them run in the second ring of tests, and one of these also runs in the first ring.
    """
    ten = random.Random(42).sample(REPORTS, 10)
    marks = {name: [pytest.mark.slow, pytest.mark.more] for name in ten} | {ten[0]: []}
    return [pytest.param(name, marks=marks.get(name, [pytest.mark.slow])) for name in REPORTS]


def test_each_report_has_a_search_and_a_near_thread_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER.parent)
    import upstream_reports

    searches = upstream_reports.searches()
    assert list(searches) == sorted(searches)
    assert {f"{name}.md" for name in searches} == set(upstream_reports.reports()), (
        "each report must have a search"
    )
    for name, search in searches.items():
        assert search.query and bool(search.nearest) == bool(search.reason), name
    monkeypatch.setattr(upstream_reports, "searches", lambda: searches | {"none": searches["power"]})
    with pytest.raises(ValueError, match="names no report: none"):
        upstream_reports.reports()


def test_each_record_with_an_address_is_listed() -> None:
    addresses = {record.fault.upstream for record in records()} - {""}
    listed = (FOLDER / "README.md").read_text()
    assert addresses and all(f"]({address})" in listed for address in addresses)


@pytest.mark.parametrize("name", sampled())
def test_a_report_reproduces(name: str, tmp_path: Path) -> None:
    text = report(name).read_text()
    blocks = BLOCK.findall(text)
    (tmp_path / "program.mlir").write_text(blocks[0])
    if code := "".join(block for block in blocks if block.startswith("import numpy")):
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    commands = [block for block in blocks if block.startswith("iree-")]
    compiled = run(commands[0], tmp_path)
    if compiled.returncode != 0:
        assert "the compiler should accept it" in text, compiled.stderr
        return
    witness = find_witness(name)
    if witness.refused:
        assert run(commands[1], tmp_path).returncode == 0, "IREE refuses the call: delete the workaround"
        return
    outputs = [tmp_path / f"output{i}.npy" for i in range(len(witness.results()))]
    ended = run(commands[1] + " ".join(["", *(f"--output=@{file}" for file in outputs)]), tmp_path)
    assert "parsing input" not in ended.stderr, ended.stderr
    assert ended.returncode != 0 or not agrees(witness, outputs), "IREE is right: delete the workaround"


def run(command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Runs a command of a report in a shell, with the tools of this Python environment."""
    tools = Path(sys.executable).parent, Path(find_tool("iree-compile")).parent
    path = ":".join([*map(str, tools), "/usr/local/bin:/usr/bin:/bin"])
    shell = shutil.which("sh") or "sh"
    return subprocess.run(
        [shell, "-c", command.strip().replace("\n", " ")],
        cwd=folder,
        env={"PATH": path},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=300,
    )


def agrees(witness: Witness, files: list[Path]) -> bool:
    """Whether the results in these files are the results that the specification requires."""
    expected = witness.results()
    found = [np.load(file) for file in files]
    typed = [
        x.view(y.dtype).reshape(y.shape) if x.dtype.kind == "V" else x
        for x, y in zip(found, expected, strict=True)
    ]
    return witness.agrees(typed)
