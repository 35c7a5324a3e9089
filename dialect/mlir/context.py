"""The MLIR context, with the dialects StableHLO, CHLO and tidu; a parser and a pass runner that raise `TiducError`s."""

import functools
import gc
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from torch_mlir import ir
from torch_mlir._mlir_libs import _mlir, _stablehlo
from torch_mlir.passmanager import PassManager

from tiduc.dialect import progress
from tiduc.dialect.errors import InvalidIR, ParseError, TiducError, Unsupported, describe
from tiduc.dialect.mlir import bindings
from tiduc.dialect.mlir.aliases import check_sizes, may_share
from tiduc.dialect.mlir.artifacts import BYTECODE, holds_shardy, is_portable, text_by_jaxlib
from tiduc.dialect.mlir.foreign import foreign, of_another_compiler, of_python, oversized, without_words
from tiduc.dialect.mlir.formats import format_at
from tiduc.dialect.mlir.resources import check_resources
from tiduc.dialect.mlir.source_names import name_arguments
from tiduc.dialect.ops import shardy
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.dialect.ops.tidu import Tidu
from tiduc.dialect.reading import read_whole
from tiduc.dialect.turns import turn

_ALLOW = "If this is intended, please use -allow-unregistered-dialect with the MLIR tool used"
_HOW = (
    "If the op has rules, name their module: --rules MODULE; tiduc opt also has --allow-unregistered-dialect"
)
_UNREGISTERED = re.compile(r"unregistered[ -]dialect")
_NO_DIALECT = re.compile(r"unregistered[ -]dialect|not found for custom op")
_UNKNOWN = re.compile(r"""(?:`!"?|dialect ')([^."']+)""")
_NO_TEXT = "a name is not UTF-8 text"


class _Every(frozenset[str]):
    """A collection that contains every name."""

    def __contains__(self, name: object) -> bool:
        return True


EVERY_DIALECT = _Every()
"""A value for the parameter `dialects` of `parse` and `read`: ops of any dialect may then be unregistered."""

P = ParamSpec("P")
R = TypeVar("R")


_contexts: list[Any] = []
"""Holds the context; empty until `context` has created it."""


def context() -> Any:
    """The process's `ir.Context`. Graphs of all files share one context, so that attributes can be compared.

    MLIR's multithreading is off, because passes in Python require that. Threads use the context in turn (`turns.py`).
    """
    if not _contexts:
        with turn():
            if not _contexts:
                _contexts.append(_complete_context())
    return _contexts[0]


def _complete_context() -> Any:
    """Creates a context with all dialects that tiduc uses."""
    # The bindings import a Python module for each dialect. Without such modules, each new op view would retry a failing
    # import (13 us). The bindings find the empty modules in `views` first, because importing torch-mlir's takes 0.4 s.
    _mlir.globals.dialect_search_modules = ["tiduc.dialect.mlir.views", *_mlir.globals.dialect_search_modules]
    it = ir.Context()
    it.enable_multithreading(False)
    _stablehlo.register_dialect(it)
    _stablehlo.register_stablehlo_passes()
    bindings.register_passes()
    with it, ir.Location.unknown():
        _read_complex_elements()
        Tidu.load()
        shardy.Shardy.load()
        # The bindings cannot register CHLO directly. This pass depends on CHLO, so running it loads the dialect.
        load_chlo = PassManager.parse("builtin.module(stablehlo-compatibility-expander{target=1.0.0})")
        load_chlo.run(ir.Module.create().operation)
    return it


def _read_complex_elements() -> None:
    """Makes the bindings return complex elements attributes as `DenseElementsAttr`.

    By default, they raise a TypeError, which ends the process if it occurs in a callback from C++.
    """

    @functools.cache
    def of_type(type_: ir.RankedTensorType) -> Any:
        element = ir.ShapedType(type_).element_type
        if isinstance(element, ir.ComplexType):
            return ir.DenseElementsAttr
        return ir.DenseFPElementsAttr if isinstance(element, ir.FloatType) else ir.DenseIntElementsAttr

    def downcast(attribute: ir.Attribute) -> Any:
        return of_type(attribute.type)(attribute)

    scalar = ir.RankedTensorType.get([], ir.F32Type.get())
    any_elements = ir.DenseElementsAttr.get_splat(scalar, ir.FloatAttr.get(ir.F32Type.get(), 0))
    ir.register_type_caster(any_elements.typeid, replace=True)(downcast)


def stage(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator for a stage, a function that works on MLIR: it runs in the MLIR context, while other threads wait.

    Pauses the cyclic garbage collector, because the bindings create millions of small objects without cycles, and the
    collector would double the time of a stage. Converts `ir.MLIRError`, `RecursionError`, and the bindings' error for
    strings that are not UTF-8 to `TiducError`s. Records the name of the stage, for crash reports.
    """
    name = function.__qualname__.removesuffix(".__init__").lstrip("_")

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with turn():
            interrupted = progress.begin(name)
            result = None
            collecting = gc.isenabled()
            gc.disable()
            try:
                with context(), ir.Location.unknown():
                    result = function(*args, **kwargs)
                    return result
            except ir.MLIRError as error:
                raise diagnosed(error) from None
            except RecursionError:  # stages recurse on nested graphs
                raise Unsupported("regions or calls are nested too deeply") from None
            except RuntimeError as error:
                if "str_from_cstr" not in str(error):
                    raise
                # MLIR's strings are bytes; the bindings fail on those that are not UTF-8.
                raise ParseError(_NO_TEXT) from None
            finally:
                if collecting:
                    gc.enable()
                progress.end(name, interrupted, args, result)

    return run


def diagnosed(error: ir.MLIRError, file: str | None = None) -> TiducError:
    """Converts the first diagnostic of an error to a `TiducError`. In the location, `file` replaces the name "-"."""
    if not error.error_diagnostics:
        return ParseError(str(error), file)
    first = error.error_diagnostics[0]
    # MLIR's message names an option of MLIR's tools, which tiduc's commands do not have.
    message = first.message.replace(_ALLOW, _HOW)
    message = "\n".join([message, *(f"note: {note.message}" for note in first.notes)])
    place = describe(first.location)
    if file is not None and place.startswith("-:"):
        place = file + place[1:]
    return ParseError(message, place or file)


def verify(op: ir.Module | IrOp, location: ir.Location | None = None) -> None:
    """Raises `InvalidIR` if MLIR's verifier rejects a module or an op that tiduc has created.

    `location` is the error's location if the rejected op has none.
    """
    try:
        op.operation.verify()
    except ir.MLIRError as error:
        rejection = diagnosed(error)
        message = f"tiduc made invalid IR; please report it, unless a rule of yours emits the op: {rejection.message}"
        raise InvalidIR(message, rejection.location or location) from None


@contextmanager
def collected_messages() -> Iterator[list[str]]:
    """Context manager that collects the messages of MLIR's diagnostics in a list, instead of printing them.

    Some functions of the bindings only report that they failed. The messages give the reason.
    """
    messages: list[str] = []

    def hear(diagnostic: ir.Diagnostic) -> bool:
        try:
            messages.append(diagnostic.message)
        except RuntimeError:  # the message is not UTF-8
            messages.append(_NO_TEXT)
        return True

    with turn(), context().attach_diagnostic_handler(hear):
        yield messages


@stage
def available_dialects() -> list[str]:
    """The names of all dialects that modules may use. MLIR lists them in a note to its error for an unknown dialect."""
    try:
        ir.Module.parse("no_dialect.op")
    except ir.MLIRError as error:
        notes = [note.message for note in error.error_diagnostics[0].notes]
        listed: str = notes[0].removeprefix("Available dialects: ").partition(" (* ")[0]
        return listed.replace(" (*)", "").split(", ")
    return []


@stage
def parse(text: str | bytes, file: str | None = None, dialects: Collection[str] = ()) -> Any:
    """Parses StableHLO text, MLIR bytecode or a portable artifact, and returns the `ir.Module`.

    Raises `ParseError` if the source is invalid. `file` is the file name in diagnostics. Ops of the dialects in
    `dialects` may be unregistered; text must have them in generic form.
    """
    try:
        if isinstance(text, bytes) and is_portable(text):
            return _deserialize(text, file)
        _check(text, file)
        spelled = _with_shardy(text)
        source, known = (text, dialects) if spelled is None else (spelled, _with(dialects, shardy.DIALECT))
        module = _parsed(ir.Module.parse, source, known, len(source))
        _check_module(module, source, file)
        _name_arguments(module, source, "-")
        if spelled is not None:
            shardy.fold(module)
        return module
    except ir.MLIRError as error:
        if isinstance(text, bytes) and holds_shardy(text):
            return parse(text_by_jaxlib(text, file), file, dialects)
        raise _unread(error, file, text) from None
    except MemoryError as error:
        raise _unread(error, file, text) from None


def _name_arguments(module: ir.Module, source: str | bytes, file: str) -> None:
    """Calls `name_arguments` for a source that is not bytecode. `file` is the file name in locations."""
    text = source.encode("utf-8", "surrogateescape") if isinstance(source, str) else source
    if not text.startswith(BYTECODE):
        name_arguments(module, text, file)


def _check(source: str | bytes, file: str | None) -> None:
    """Raises `ParseError` for text with a huge dimension number, because MLIR's parser would end the process."""
    if (
        ("]x[" in source)
        if isinstance(source, str)
        else (b"]x[" in source and not source.startswith(BYTECODE))
    ):
        text = _text(source)
        if message := oversized(text):
            raise ParseError(message[0], _place(text, message[1], file))


def _check_module(module: ir.Module, source: str | bytes, file: str | None) -> None:
    """Raises `ParseError` if a module's resources are invalid, or if its text would take exponential space."""
    check_resources(module, source, file)
    if may_share(source):
        check_sizes(module, file)


def _unread(error: ir.MLIRError | MemoryError, file: str | None, source: str | bytes) -> Exception:
    """The error to raise for a source that MLIR cannot read. Its message explains the cause if the cause is known."""
    if isinstance(error, MemoryError):  # damaged bytecode may request any amount of memory
        if not isinstance(source, bytes) or not source.startswith(BYTECODE):
            return error
        return ParseError("this bytecode takes more memory than there is; it may be damaged", file)
    if isinstance(source, bytes) and (other := foreign(source)):
        return ParseError(other, file)
    if not error.error_diagnostics and (message := without_words(text := _text(source))):
        return ParseError(message[0], _place(text, message[1], file))
    if instead := of_python(text := _text(source)):
        return ParseError(instead, file)
    diagnosis = diagnosed(error, file)
    if _NO_DIALECT.search(diagnosis.message) and (instead := of_another_compiler(text)):
        diagnosis.message = instead
    return diagnosis


def _is_text(name: str) -> bool:
    """Whether a name can be encoded in UTF-8. `os.fsdecode` turns bytes that are not UTF-8 into surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _text(source: str | bytes) -> str:
    return source if isinstance(source, str) else source.decode("utf-8", "surrogateescape")


def _place(text: str, at: int, file: str | None) -> str:
    """The `file:line:col` of the character at offset `at`."""
    line = text.count("\n", 0, at) + 1
    return f"{file or '-'}:{line}:{at - text.rfind(chr(10), 0, at)}"


def _with_shardy(text: str | bytes) -> bytes | None:
    """Returns None if the source has no Shardy ops, else the text with these ops in generic form, or the bytecode."""
    if isinstance(text, bytes):
        if holds_shardy(text):
            return text
        if text.startswith(BYTECODE) or b"sdy." not in text:
            return None
        text = _text(text)
    # Names and strings may hold bytes that are not UTF-8, which the bindings accept only in a bytes object.
    return shardy.generic(text).encode("utf-8", "surrogateescape") if shardy.has_ops(text) else None


def _with(dialects: Collection[str], name: str) -> Collection[str]:
    return dialects if name in dialects else {*dialects, name}


def _parsed(parser: Callable[[Any], Any], source: str | bytes, dialects: Collection[str], size: int) -> Any:
    """Calls a parser of MLIR on the source, whose length in bytes is `size`, and returns the module.

    If the parser rejects unregistered ops or attributes of `dialects`, calls it again and allows them. If a module has
    unregistered ops, the context allows such ops from then on, because a copy of an op is a new unregistered op.
    """
    before, context().allow_unregistered_dialects = context().allow_unregistered_dialects, False
    try:
        with progress.time_limit(_seconds(size)):
            return parser(source)
    except ir.MLIRError as error:
        said = [d.message for d in error.error_diagnostics if _UNREGISTERED.search(d.message)]
        unknown = {match[1] for message in said if (match := _UNKNOWN.match(message))}
        if not said or not all(name in dialects for name in unknown):
            raise
        context().allow_unregistered_dialects = True
        module = parser(source)
        unknown = _unregistered(module)
        if not all(name in dialects for name in unknown):
            raise
        before = before or bool(unknown)
        return module
    finally:
        context().allow_unregistered_dialects = before


def _unregistered(module: ir.Module) -> set[str]:
    """The dialects of a module's unregistered ops."""
    names = set()

    def look(op: IrOp) -> ir.WalkResult:
        if not context().is_registered_operation(op.name):
            names.add(op.name.partition(".")[0])
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return names


def _seconds(size: int) -> float:
    """The time limit for reading `size` bytes. MLIR reads 10 MB/s, but never stops on some damaged bytecode."""
    return 20 + size / 1e6


def _deserialize(artifact: bytes, file: str | None) -> Any:
    with collected_messages() as messages, progress.time_limit(_seconds(len(artifact))):
        try:
            module = _stablehlo.deserialize_portable_artifact(context(), artifact)
            _check_module(module, artifact, file)
            return module
        except ValueError as error:
            if not holds_shardy(artifact):
                raise ParseError("; ".join(messages) or str(error), file) from None
    return parse(text_by_jaxlib(artifact, file), file)


@stage
@progress.during("parse")
def read(path: str | Path, dialects: Collection[str] = ()) -> Any:
    """Parses a file, and returns its `ir.Module`. `dialects` is as for `parse`. Raises `TiducError` for a bad file."""
    if not str(path):
        raise TiducError("the name of the file is empty")
    try:
        contents = read_whole(path)
        # A pipe, such as the shell's `<(command)`, can be read only once.
        if once := not Path(path).is_file():
            progress.keep(contents)
        nameable = _is_text(str(path))  # MLIR accepts only file names in UTF-8
        if once or not nameable or is_portable(contents) or _with_shardy(contents) is not None:
            return parse(contents, str(path), dialects)
        _check(contents, str(path))
        # With `parseFile`, unlike `parse`, locations contain the name of the file.
        module = _parsed(ir.Module.parseFile, str(path), dialects, len(contents))
        _check_module(module, contents, str(path))
        _name_arguments(module, contents, str(path))
        return module
    except (ir.MLIRError, MemoryError) as error:
        raise _unread(error, str(path), contents) from None
    except OSError as error:
        known = format_at(str(path)) if isinstance(error, IsADirectoryError) else None
        raise TiducError(known.message() if known else error.strerror or str(error), str(path)) from None


@stage
def run_passes(operation: IrOp, pipeline: str, verify: bool = False) -> None:
    """Runs a textual pipeline of MLIR passes on an operation, in place. If `verify`, MLIR verifies after each pass."""
    try:
        manager = PassManager.parse(pipeline)
    except ValueError as error:
        raise TiducError(str(error)) from None
    manager.enable_verifier(verify)
    manager.run(operation)
