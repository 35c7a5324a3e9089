"""Options of `tiduc opt` that observe a pipeline: printed IR, statistics, times, and a reproducer of a failure.

MLIR's pass manager prints the IR before and after passes, Python passes included. From Python, it cannot select passes
by name. If the user names passes, this module therefore captures MLIR's output and removes the IR of other passes.
"""

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch_mlir import ir, passmanager

from tiduc.dialect.errors import RequestError, TiducError
from tiduc.dialect.ops.ir_types import IrOp

COUNT = "count-ops"
"""The argument of the passes that count ops for `Statistics`; their IR is not printed."""

_DUMP = re.compile(rb"^// -----// IR Dump (?P<when>Before|After) (?P<which>.*) //----- //$", re.MULTILINE)
_END = re.compile(rb"^===-", re.MULTILINE)  # a report follows the last IR
_REPRODUCER = re.compile(r"mlir_reproducer:\s*\{(.*?)\n\s*\}", re.DOTALL)
_RULE = "===" + "-" * 73 + "==="


@dataclass(frozen=True)
class Printing:
    """How IR is printed: in generic form, with locations, and without the elements of constants above a size."""

    generic: bool = False
    debuginfo: bool = False
    elide_if_larger: int | None = None  # elements

    @property
    def options(self) -> dict[str, Any]:
        """The options of `get_asm` and of `enable_ir_printing`."""
        return {
            "print_generic_op_form": self.generic,
            "enable_debug_info": self.debuginfo,
            "large_elements_limit": self.elide_if_larger,
        }


@dataclass(frozen=True)
class Observe:
    """The IR and reports that a pipeline prints to standard error, and whether each pass is verified.

    `before` and `after` are names of passes. `after_change` and `after_failure` print only after passes that change the
    IR or fail. With `tree_dir`, all IR is written to files in that directory, and only the IR of `before` and `after`
    to standard error. `reproducer` is the file that receives the module and the pipeline if the pipeline fails or
    crashes.
    """

    before_all: bool = False
    after_all: bool = False
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    after_change: bool = False
    after_failure: bool = False
    module_scope: bool = False
    tree_dir: str | None = None
    printing: Printing = field(default=Printing())
    dump_pipeline: bool = False
    statistics: bool = False
    timing: bool = False
    verify_each: bool = True
    reproducer: str | None = None

    def enable(self, manager: passmanager.PassManager) -> None:
        """Sets the options of a `PassManager`."""
        any_after = bool(self.after_all or self.after or self.after_change or self.after_failure)
        shared = dict(self.printing.options, print_module_scope=self.module_scope)
        printed = dict(
            shared,
            print_before_all=bool(self.before_all or self.before),
            print_after_all=any_after,
            print_after_change=self.after_change,
            print_after_failure=self.after_failure,
        )
        if self.tree_dir is not None:
            whole = printed if self.before_all or self._after_any else shared
            manager.enable_ir_printing(tree_printing_dir_path=self.tree_dir, **whole)
        if self.before or self.after or (self.tree_dir is None and (self.before_all or any_after)):
            manager.enable_ir_printing(**printed)
        if self.timing:
            manager.enable_timing()
        manager.enable_verifier(self.verify_each)

    @contextmanager
    def selected(self) -> Iterator[None]:
        """Prints the IR of only the requested passes in the block. Afterwards, renames the files of `tree_dir`."""
        try:
            with self._filtered():
                yield
        finally:
            # Native code names a file after the text of the pass, including its options.
            for path in Path(self.tree_dir).rglob("*{*.mlir") if self.tree_dir is not None else ():
                path.rename(path.with_name(re.sub(r"\{.*\}", "", path.name)))

    @contextmanager
    def _filtered(self) -> Iterator[None]:
        if not (self.before or self.after or self.statistics):
            yield
            return
        sys.stderr.flush()
        with tempfile.TemporaryFile() as captured:
            standard_error = os.dup(2)
            os.dup2(captured.fileno(), 2)
            try:
                yield
            finally:
                os.dup2(standard_error, 2)
                captured.seek(0)
                with open(standard_error, "wb") as out:
                    out.write(self._only_requested(captured.read()))

    def _only_requested(self, printed: bytes) -> bytes:
        """The printed text without the IR of passes that were not requested."""
        dumps = list(_DUMP.finditer(printed))
        if not dumps:
            return printed
        end = _END.search(printed, dumps[-1].end())
        stops = [dump.start() for dump in dumps[1:]] + [end.start() if end else len(printed)]
        parts = [printed[: dumps[0].start()]]
        for dump, stop in zip(dumps, stops, strict=True):
            if self._requests(dump["when"].decode(), os.fsdecode(dump["which"])):
                parts.append(printed[dump.start() : stop])
        return b"".join([*parts, printed[stops[-1] :]])

    def _requests(self, when: str, which: str) -> bool:
        """Whether to print the IR. `which` has the name of the pass, a colon, and the pass's text in the pipeline."""

        def is_one_of(names: Sequence[str]) -> bool:
            return any(re.search(rf": {re.escape(name)}(?![\w-])", which) for name in names)

        if is_one_of((COUNT,)):
            return False
        if when == "Before":
            return self.before_all or is_one_of(self.before)
        return is_one_of(self.after) if self.after else self._after_any

    @property
    def _after_any(self) -> bool:
        return self.after_all or self.after_change or self.after_failure


class Statistics:
    """The number of ops of a module before and after each pass, printed in the form of MLIR's report.

    The wheel that holds MLIR is compiled without the statistics of MLIR's own passes.
    """

    def __init__(self) -> None:
        self._counts: list[tuple[str, int]] = []

    def counting(self, name: str) -> Any:
        """A function for `PassManager.add` that counts the ops after the pass of this name."""

        def count(op: IrOp, _: object) -> None:
            total = 0

            def visit(_: object) -> Any:
                nonlocal total
                total += 1
                return ir.WalkResult.ADVANCE

            op.operation.walk(visit)
            self._counts.append((name, total - 1))  # the module itself is not counted

        return count

    def report(self) -> str:
        """The report. The numbers include ops in regions, but not the module."""
        lines = [_RULE, "... Pass statistics report ...".center(79).rstrip(), _RULE]
        for (_, before), (name, after) in zip(self._counts, self._counts[1:], strict=False):
            lines += [name, f"  (S) {before:>6} ops before", f"  (S) {after:>6} ops after"]
        return "\n".join([*lines, "", ""])


@contextmanager
def reproducible(module: ir.Module, pipeline: str, observe: Observe) -> Iterator[None]:
    """Writes the module and the pipeline to `observe.reproducer`, and removes the file if the block succeeds.

    The file is written first, so that it exists even if a native pass ends the process.
    """
    path = observe.reproducer
    if path is None:
        yield
        return
    if os.path.exists(path) and not _is_reproducer(path):
        raise RequestError(
            "the file exists and is not a reproducer; name a new file for the reproducer", path
        )
    with _writable(path), open(path, "wb") as file:
        file.write(reproducer(module, pipeline, observe.verify_each))
    try:
        yield
    except TiducError as error:
        error.message += f"\nnote: reproducer generated at {path}"
        raise
    with _writable(path):
        os.remove(path)


def _is_reproducer(path: str) -> bool:
    with _writable(path), open(path, "rb") as file:
        return b"mlir_reproducer" in file.read()


@contextmanager
def _writable(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TiducError(f"cannot write the reproducer: {error.strerror}", path) from None


def reproducer(module: ir.Module, pipeline: str, verify_each: bool) -> bytes:
    """The text of a module with the resource `mlir_reproducer`, as MLIR's tools write and read it."""
    text = module.operation.get_asm(binary=True, enable_debug_info=True)
    assert isinstance(text, bytes)
    fields = f"pipeline: {ir.StringAttr.get(pipeline)}", f"verify_each: {str(verify_each).lower()}"
    body = ",\n      ".join([fields[0], "disable_threading: true", fields[1]])
    resource = f"{{-#\n  external_resources: {{\n    mlir_reproducer: {{\n      {body}\n    }}\n  }}\n#-}}\n"
    return text.rstrip(b"\n") + b"\n\n" + resource.encode("utf-8", "surrogateescape")


def pipeline_of(reproducer: bytes, file: str) -> tuple[str, bool]:
    """The pipeline of a reproducer, and whether each pass is verified. Raises `RequestError` if it has no pipeline."""
    text = reproducer.decode("utf-8", "surrogateescape")
    resource = _REPRODUCER.search(text)
    quoted = re.search(r'pipeline:\s*("(?:[^"\\]|\\.)*")', resource[1]) if resource else None
    if resource is None or quoted is None:
        raise RequestError(
            "the file has no mlir_reproducer with a pipeline, which --run-reproducer runs", file
        )
    verify = re.search(r"verify_each:\s*(true|false)", resource[1])
    pipeline = str(ir.StringAttr(ir.Attribute.parse(quoted[1])).value)
    return pipeline, verify is None or verify[1] == "true"
