"""Implements the options of `tiduc opt` that print IR, statistics and times, and that write a reproducer of a failure.

MLIR's pass manager prints the IR before and after passes, including Python passes. Its Python bindings cannot select
passes by name. If the user names passes, this module therefore captures MLIR's output and removes the IR of all other
passes.
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
"""The argument of the passes that count ops for `Statistics`. No IR is printed for these passes."""

_DUMP = re.compile(rb"^// -----// IR Dump (?P<when>Before|After) (?P<which>.*) //----- //$", re.MULTILINE)
_END = re.compile(rb"^===-", re.MULTILINE)  # a report follows the last IR
_REPRODUCER = re.compile(r"mlir_reproducer:\s*\{(.*?)\n\s*\}", re.DOTALL)
_RULE = "===" + "-" * 73 + "==="


@dataclass(frozen=True)
class Printing:
    """How IR is printed: in generic form or not, with locations or not, and from which size on constants are elided."""

    generic: bool = False
    debuginfo: bool = False
    elide_if_larger: int | None = None  # a number of elements

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments for `get_asm` and `enable_ir_printing` of MLIR's bindings."""
        return {
            "print_generic_op_form": self.generic,
            "enable_debug_info": self.debuginfo,
            "large_elements_limit": self.elide_if_larger,
        }


@dataclass(frozen=True)
class Observe:
    """Options: the IR and reports that a pipeline prints to standard error, and whether each pass is verified.

    `before` and `after` are names of passes. With `after_change`, IR is printed only after passes that change it, and
    with `after_failure`, only after passes that fail. With `tree_dir`, all IR is written to files in this directory,
    and only the IR of `before` and `after` is printed. If the pipeline fails or crashes, the module and the pipeline
    are in the file `reproducer`.
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
        """Configures a `PassManager` by these options."""
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
        """Context manager in whose body only the IR of requested passes is printed. Renames files in `tree_dir`."""
        try:
            with self._filtered():
                yield
        finally:
            # MLIR names a file after the text of the pass. Renaming removes the options in braces.
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
        """Removes the IR of passes that were not requested from the printed text."""
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
        """Whether the options request this IR. `which` is the pass's name, a colon, and its text in the pipeline."""

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
    """Counts the ops of a module before and after each pass, for a report in the form of MLIR's statistics.

    The statistics of MLIR's own passes are not available, because the wheel is compiled without them.
    """

    def __init__(self) -> None:
        self._counts: list[tuple[str, int]] = []

    def counting(self, name: str) -> Any:
        """A pass, for `PassManager.add`, that counts the ops after the pass with this name."""

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
        """The text of the report. The counts include ops in regions, but not the module itself."""
        lines = [_RULE, "... Pass statistics report ...".center(79).rstrip(), _RULE]
        for (_, before), (name, after) in zip(self._counts, self._counts[1:], strict=False):
            lines += [name, f"  (S) {before:>6} ops before", f"  (S) {after:>6} ops after"]
        return "\n".join([*lines, "", ""])


@contextmanager
def reproducible(module: ir.Module, pipeline: str, observe: Observe) -> Iterator[None]:
    """Context manager that writes a reproducer to `observe.reproducer`, and removes the file if the body succeeds.

    The file is written before the body runs, so that it exists even if a native pass ends the process.
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
    """The text of a reproducer: the module, with the pipeline in the resource `mlir_reproducer`, as in MLIR's tools."""
    text = module.operation.get_asm(binary=True, enable_debug_info=True)
    assert isinstance(text, bytes)
    fields = f"pipeline: {ir.StringAttr.get(pipeline)}", f"verify_each: {str(verify_each).lower()}"
    body = ",\n      ".join([fields[0], "disable_threading: true", fields[1]])
    resource = f"{{-#\n  external_resources: {{\n    mlir_reproducer: {{\n      {body}\n    }}\n  }}\n#-}}\n"
    return text.rstrip(b"\n") + b"\n\n" + resource.encode("utf-8", "surrogateescape")


def pipeline_of(reproducer: bytes, file: str) -> tuple[str, bool]:
    """The pipeline in a reproducer, and whether the IR is verified after each pass.

    Raises `RequestError`, located at `file`, if there is no pipeline.
    """
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
