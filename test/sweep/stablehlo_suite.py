"""Runs test programs of StableHLO with IREE, and compares the results with the values that these programs expect.

    python test/sweep/stablehlo_suite.py DIRECTORY [--journal FILE [--again CATEGORY,...]] [--filter REGEX]
        [--sample N] [--plain] [--target NAME] [--workers N] [--list]

DIRECTORY has `.mlir` files with `check.expect_*` ops, such as `stablehlo/testdata` and `stablehlo/tests/interpret` of
openxla/stablehlo. Optimization barriers hide constants from the compiler, which could otherwise fold the whole program.
Several files are compiled together, or one by one if that fails. A worker process that dies or exceeds the time limit
is replaced. With a journal, a later run continues.

    --plain      skip `tidu-legalize-for-iree`
    --sample N   run N programs of each family; the first word of a file's name is its family
    --again C    with a journal, rerun files with outcomes of these categories, such as `wrong,crash`

The categories:

    ok        the results agree; floats may differ by a few units in the last place of the largest element
    compiled  the program compiles, and expects no values
    refused   tiduc raises an error before it calls the compiler
    rejected  the compiler rejects the program
    flushed   a value differs, and the program has subnormals, which IREE replaces by 0
    wrong     a value differs
    crash     the compiler or the run crashes, or another exception is raised
    hang      there is no outcome after SECONDS
    n/a       the program runs several processes, or has types that NumPy, IREE's runtime or the parser lacks
"""

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from counts import summary
from stablehlo_programs import agree, holds_denormals, pairs_returned, programs, renamed, take_kinds
from worker import Worker, answer_requests

from tiduc.backends.iree import legalize_for_iree
from tiduc.backends.iree.compile import compile_first, compile_module
from tiduc.backends.iree.fast.convolutions.convolutions_to_kernels import convolutions_to_kernels
from tiduc.backends.iree.fast.loops.loops_to_kernels import loops_to_kernels
from tiduc.backends.iree.settings import Settings
from tiduc.backends.iree.source import Source
from tiduc.backends.iree.targets import KERNELS, find_target
from tiduc.dialect.errors import CompileError, TiducError
from tiduc.dialect.mlir.context import parse, stage
from tiduc.runtime.process import Limits
from tiduc.runtime.run import Executable

CATEGORIES = ("ok", "compiled", "refused", "rejected", "flushed", "wrong", "crash", "hang", "n/a")
SECONDS = 90  # the time limit of a file
TOGETHER = 8  # the number of files that are compiled to one module

Outcomes = list[tuple[str, str]]
"""The category and a detail for each program of a file."""


@dataclass
class Program:
    """A program to compile. Its outcome is stored as `outcomes[place]`. `kinds` are the kinds of its checks."""

    module: Any
    kinds: list[str]
    outcomes: Outcomes
    place: int
    sources: list[Source]  # if not empty, IREE compiles the first of these that it can, instead of the module


def outcomes_of(files: list[str], plain: bool, target: str) -> dict[str, Outcomes]:
    """Compiles and runs several files together. Returns the outcomes of each file."""
    outcomes_by_file: dict[str, Outcomes] = {}
    ready = [program for file in files for program in _prepared(file, outcomes_by_file, plain, target)]
    texts = [None if one.sources else renamed(one.module, f"main_{i}") for i, one in enumerate(ready)]
    alone = [program for program, text in zip(ready, texts, strict=True) if text is None]
    together = [(f"main_{i}", program) for i, program in enumerate(ready) if texts[i] is not None]
    if together:
        try:
            vmfb = _compiled("\n".join(filter(None, texts)), target)
        except CompileError:
            alone += [program for _, program in together]
        else:
            for name, program in together:
                program.outcomes[program.place] = _run(vmfb, name, program, target)
    for program in alone:
        program.outcomes[program.place] = _by_itself(program, target)
    return outcomes_by_file


def _prepared(
    file: str, outcomes_by_file: dict[str, Outcomes], plain: bool, target: str
) -> Iterator[Program]:
    """Yields the programs of a file that tiduc does not refuse. Stores other outcomes in `outcomes_by_file`."""
    text = Path(file).read_text()
    try:
        modules = [m for part in programs(text) for m in pairs_returned(part)]
        if "check." not in text:
            modules = [parse(text)]
    except TiducError as error:
        outcomes_by_file[file] = [("n/a", str(error)[:200])]
        return
    rows: Outcomes = [("crash", "")] * len(modules) or [("n/a", "nothing expected")]
    outcomes_by_file[file] = rows
    for i, module in enumerate(modules):
        kinds = take_kinds(module)
        try:
            if not plain:
                sources = _legalized(module, target)
        except TiducError as error:
            rows[i] = ("refused", str(error)[:300])
        else:
            yield Program(module, kinds, rows, i, [] if plain else sources)


@stage
def _legalized(module: Any, target: str) -> list[Source]:
    """Legalizes a module as `tiduc compile` does.

    If loops of the module can become kernels, returns a source with kernels and one without, otherwise an empty list.
    """
    cpu = target.startswith("cpu")
    if cpu:
        convolutions_to_kernels(module.operation, Settings(vectors=find_target(target).vectors))
    legalize_for_iree(module, cpu=cpu, spirv=find_target(target).spirv)
    if target != "cpu":
        return []
    kernels = module.operation.clone().operation
    if not loops_to_kernels(kernels):
        return []
    with_kernels, without = (str(op.get_asm(assume_verified=True)) for op in (kernels, module.operation))
    return [Source(with_kernels, target, flags=KERNELS), Source(without, target)]


def _compiled(text: str, target: str) -> bytes:
    return compile_module(text, target, limits=Limits(seconds=SECONDS), cached=False)


def _by_itself(program: Program, target: str) -> tuple[str, str]:
    try:
        if program.sources:
            vmfb = compile_first(program.sources, Limits(seconds=SECONDS), cached=False)
        else:
            vmfb = _compiled(stage(str)(program.module), target)
    except CompileError as error:
        words = str(error)[:300]
        return (
            "crash" if "crashed" in words else "hang" if "was ended after" in words else "rejected"
        ), words
    except TiducError as error:
        return "refused", str(error)[:300]
    return _run(vmfb, "main", program, target)


def _run(vmfb: bytes, name: str, program: Program, target: str) -> tuple[str, str]:
    if not program.kinds:
        return "compiled", ""
    try:
        results = Executable(vmfb, target, entry=name)()
    except TiducError as error:
        return "n/a" if "whose element type NumPy does not have" in str(error) else "crash", str(error)[:300]
    for x, y, kind in zip(results[::2], results[1::2], program.kinds, strict=True):
        if not agree(x, y, kind):
            tiny = holds_denormals(program.module, results[1::2])
            return "flushed" if tiny else "wrong", f"{x!r} for {y!r}"[:400].replace("\n", " ")
    return "ok", ""


def work(plain: bool, target: str) -> None:
    """The main function of a worker process. A request is a list of files, and an answer has their outcomes."""

    def answer(files: list[str]) -> dict[str, Outcomes]:
        try:
            return outcomes_of(files, plain, target)
        except Exception as error:
            return {file: [("crash", repr(error)[:300])] for file in files}

    answer_requests(answer)


def tried(worker: Worker, files: list[str]) -> dict[str, Outcomes]:
    """Returns the outcomes of files, from a worker.

    If one of several files fails, each file is run again separately.
    """
    answer = worker.asked(files, SECONDS * (1 + len(files)))
    if isinstance(answer, dict) and (len(files) == 1 or not _died(answer)):
        return answer
    if len(files) > 1:
        return {file: outcomes for one in files for file, outcomes in tried(worker, [one]).items()}
    return {files[0]: [(str(answer), "")]}


def _died(answer: dict[str, Outcomes]) -> bool:
    """Returns whether a program failed. An earlier program in the same process may be the cause."""
    return any(category in ("crash", "wrong") for outcomes in answer.values() for category, _ in outcomes)


def chosen(directory: Path, pattern: str, sample: int | None) -> list[str]:
    """Returns the files to run. Families are interleaved, so that an interrupted run has results for all families."""
    families = defaultdict(list)
    for path in sorted(directory.rglob("*.mlir")):
        if re.search(pattern, path.stem):
            families[path.stem.partition("_")[0]].append(str(path))
    placed = []
    for family in families.values():
        n = len(family) if sample is None else min(sample, len(family))
        placed += [((i + 0.5) / n, family[i * len(family) // n]) for i in range(n)]
    return [file for _, file in sorted(placed)]


def known(journal: Path | None, repeated: str) -> dict[str, Outcomes]:
    """Maps each file in a journal to its last outcomes.

    Files with an outcome whose category is in `repeated`, a comma-separated list, are left out, so that they run again.
    """
    if journal is None or not journal.exists():
        return {}
    outcomes_by_file: dict[str, Outcomes] = {}
    for line in journal.read_text().splitlines():
        outcomes_by_file |= json.loads(line)
    left_out = set(repeated.split(","))
    return {
        file: rows
        for file, rows in outcomes_by_file.items()
        if not left_out & {category for category, _ in rows}
    }


def _all_tried(files: "Queue[str]", arguments: list[str], report: Callable[[str, Outcomes], None]) -> None:
    """Takes files from a queue, `TOGETHER` at a time, and runs them in a worker process until the queue is empty."""
    worker = Worker([sys.executable, __file__, "--work", ".", *arguments])
    while True:
        some: list[str] = []
        try:
            while len(some) < TOGETHER:
                some.append(files.get_nowait())
        except Empty:
            pass
        if not some:
            break
        for file, outcomes in tried(worker, some).items():
            report(file, outcomes)
    worker.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--filter", default="")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--journal", type=Path)
    parser.add_argument("--again", default="", metavar="CATEGORY,...")
    parser.add_argument("--list", action="store_true", help="print every outcome that is not ok")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.plain, options.target)
        return
    counts: Counter[str] = Counter()

    def count(file: str, outcomes: Outcomes) -> None:
        for category, detail in outcomes:
            counts[category] += 1
            if options.list and category not in ("ok", "n/a"):
                print(f"{category:9} {Path(file).stem}: {detail}", flush=True)

    def report(file: str, outcomes: Outcomes) -> None:
        count(file, outcomes)
        if options.journal:
            with options.journal.open("a") as journal:
                journal.write(json.dumps({file: outcomes}) + "\n")

    before = known(options.journal, options.again)
    files: Queue[str] = Queue()
    for file in chosen(options.directory, options.filter, options.sample):
        if file in before:
            count(file, before[file])
        else:
            files.put(file)
    arguments = ["--target", options.target, *(["--plain"] if options.plain else [])]
    with ThreadPoolExecutor(options.workers) as pool:
        for done in [pool.submit(_all_tried, files, arguments, report) for _ in range(options.workers)]:
            done.result()
    print(summary(counts))


if __name__ == "__main__":
    main()
