"""The one way into MLIR: a context with StableHLO, CHLO and tidu loaded, and parsing with our errors."""

import functools
import gc
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo, _torchMlir  # noqa: F401  (_torchMlir registers a pass we run)
from torch_mlir.passmanager import PassManager

from tiduc.dialect import progress, shardy
from tiduc.dialect.errors import InvalidIR, ParseError, TiducError, Unsupported, describe
from tiduc.dialect.foreign import foreign, oversized, without_words
from tiduc.dialect.reading import read_whole
from tiduc.dialect.tidu import Tidu

_BYTECODE = b"ML\xefR"
_ALLOW = "If this is intended, please use -allow-unregistered-dialect with the MLIR tool used"
_UNKNOWN_TYPE = re.compile(r'`!"?([^."]+)')
_NO_TEXT = "a name is no UTF-8 text"
_ARTIFACT = b"StableHLO_v"  # follows, after a byte, in a portable artifact

P = ParamSpec("P")
R = TypeVar("R")


@functools.cache
def context() -> Any:
    """The process's `ir.Context`: graphs of all files share it, so that attributes can be compared.

    It is not multithreaded, which Python passes need.
    """
    # Without Python modules for the dialects, each op view that is made retries an import that fails (13 us).
    ir._globals.append_dialect_search_prefix("tiduc.dialect.views")
    it = ir.Context()
    it.enable_multithreading(False)
    _stablehlo.register_dialect(it)
    _stablehlo.register_stablehlo_passes()
    with it, ir.Location.unknown():
        _read_complex_elements()
        Tidu.load()
        shardy.Shardy.load()
        # CHLO has no registration call of its own; this pass depends on it and so loads it.
        load_chlo = PassManager.parse("builtin.module(stablehlo-compatibility-expander{target=1.0.0})")
        load_chlo.run(ir.Module.create().operation)
    return it


def _read_complex_elements() -> None:
    """Makes the bindings give complex elements attributes too, of which they know no class and raise a TypeError.

    Inside a callback from C++, such as a constraint of a pattern, that error would end the process.
    """

    def downcast(attribute: Any) -> Any:
        element = ir.ShapedType(attribute.type).element_type
        if isinstance(element, ir.ComplexType):
            return ir.DenseElementsAttr(attribute)
        kind = ir.DenseFPElementsAttr if isinstance(element, ir.FloatType) else ir.DenseIntElementsAttr
        return kind(attribute)

    scalar = ir.RankedTensorType.get([], ir.F32Type.get())
    any_elements = ir.DenseElementsAttr.get_splat(scalar, ir.FloatAttr.get(ir.F32Type.get(), 0))
    ir.register_type_caster(any_elements.typeid, replace=True)(downcast)


def stage(function: Callable[P, R]) -> Callable[P, R]:
    """Runs a function inside the context, with the cyclic garbage collector paused.

    The bindings make millions of small objects without cycles, which the collector would visit again and
    again: that alone doubles the time a stage takes. MLIR's errors, and Python's of depth, come out as ours.
    The stage is recorded under the function's name, for reports of crashes.
    """
    name = function.__qualname__.removesuffix(".__init__").lstrip("_")

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        interrupted = progress.enter(name)
        collecting = gc.isenabled()
        gc.disable()
        try:
            with context(), ir.Location.unknown():
                return function(*args, **kwargs)
        except ir.MLIRError as error:
            raise diagnosed(error) from None
        except RecursionError:  # of stages that call themselves for graphs in graphs
            raise Unsupported("regions, or calls, are nested too deeply") from None
        except RuntimeError as error:
            if "str_from_cstr" not in str(error):
                raise
            # MLIR's strings are bytes; the bindings give those that are UTF-8.
            raise ParseError(_NO_TEXT) from None
        finally:
            if collecting:
                gc.enable()
            progress.enter(interrupted)

    return run


def diagnosed(error: Any, file: str | None = None) -> TiducError:
    """The first diagnostic of an `ir.MLIRError` as an error of ours; `file` stands for MLIR's "-"."""
    if not error.error_diagnostics:
        return ParseError(str(error), file)
    first = error.error_diagnostics[0]
    # MLIR names an option of its own tools.
    message = first.message.replace(_ALLOW, "If it has rules, name the module that has them: --rules MODULE")
    message = "\n".join([message, *(f"note: {note.message}" for note in first.notes)])
    place = describe(first.location)
    if file is not None and place.startswith("-:"):
        place = file + place[1:]
    return ParseError(message, place or file)


def verify(made: Any, location: Any = None) -> None:
    """`InvalidIR` where MLIR's verifier refuses a module or an op that tiduc made.

    `location` is the place of the error if the refused op has none.
    """
    try:
        made.operation.verify()
    except ir.MLIRError as error:
        found = diagnosed(error)
        message = (
            f"tiduc made invalid IR; please report it, unless a rule of yours emits the op: {found.message}"
        )
        raise InvalidIR(message, found.location or location) from None


@contextmanager
def told() -> Iterator[list[str]]:
    """What MLIR says in the block, in place of its printing it; some functions only say that they failed."""
    messages: list[str] = []

    def hear(diagnostic: Any) -> bool:
        try:
            messages.append(diagnostic.message)
        except RuntimeError:  # as `stage` has it
            messages.append(_NO_TEXT)
        return True

    with context().attach_diagnostic_handler(hear):
        yield messages


@stage
def parse(text: str | bytes, file: str | None = None, dialects: Collection[str] = ()) -> Any:
    """The `ir.Module` in StableHLO text, MLIR bytecode or a portable artifact; `ParseError` where it is none.

    `file` is what diagnostics call it. Ops of `dialects` are read, in generic form, even if MLIR has no definition
    of them.
    """
    try:
        if isinstance(text, bytes) and _is_artifact(text):
            return _deserialize(text, file)
        _check(text, file)
        if (spelled := _with_shardy(text)) is not None:
            module = _parsed(ir.Module.parse, spelled, {*dialects, shardy.DIALECT})
            shardy.fold(module)
            return module
        return _parsed(ir.Module.parse, text, dialects)
    except ir.MLIRError as error:
        raise _unread(error, file, text) from None


def _check(source: str | bytes, file: str | None) -> None:
    """`ParseError` for text that would end the process."""
    if (
        ("]x[" in source)
        if isinstance(source, str)
        else (b"]x[" in source and not source.startswith(_BYTECODE))
    ):
        text = _text(source)
        if found := oversized(text):
            raise ParseError(found[0], _place(text, found[1], file))


def _unread(error: Any, file: str | None, source: str | bytes) -> TiducError:
    """What MLIR says of a source that it cannot read; what that is, where it is no MLIR at all."""
    if isinstance(source, bytes) and (other := foreign(source)):
        return ParseError(other, file)
    if not error.error_diagnostics and (found := without_words(text := _text(source))):
        return ParseError(found[0], _place(text, found[1], file))
    return diagnosed(error, file)


def _is_text(name: str) -> bool:
    """Whether UTF-8 can spell a name; what `os.fsdecode` gives for other bytes has surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _text(source: str | bytes) -> str:
    return source if isinstance(source, str) else source.decode("utf-8", "surrogateescape")


def _place(text: str, at: int, file: str | None) -> str:
    """`file:line:col` of a character."""
    line = text.count("\n", 0, at) + 1
    return f"{file or '-'}:{line}:{at - text.rfind(chr(10), 0, at)}"


def _with_shardy(text: str | bytes) -> str | None:
    """The text with ops of Shardy's as they can be read; None where it has none."""
    if isinstance(text, bytes):
        if text.startswith(_BYTECODE) or b"sdy." not in text:
            return None
        text = _text(text)
    return shardy.generic(text) if shardy.has_ops(text) else None


def _parsed(parser: Callable[[Any], Any], source: str | bytes, dialects: Collection[str]) -> Any:
    """What MLIR's parser makes of the source; attributes of dialects that are not at hand, as Shardy's, stay.

    Once there are ops of such dialects, the context takes them for good: to copy one is to make one.
    """
    before, context().allow_unregistered_dialects = context().allow_unregistered_dialects, False
    try:
        return parser(source)
    except ir.MLIRError as error:
        said = [d.message for d in error.error_diagnostics if "unregistered dialect" in d.message]
        types = {found[1] for message in said if (found := _UNKNOWN_TYPE.match(message))}
        if not said or not types <= set(dialects):
            raise
        context().allow_unregistered_dialects = True
        module = parser(source)
        unknown = _unregistered(module)
        if not unknown <= set(dialects):
            raise
        before = before or bool(unknown)
        return module
    finally:
        context().allow_unregistered_dialects = before


def _unregistered(module: Any) -> set[str]:
    """The dialects of a module's ops of which MLIR has no definition."""
    found = set()

    def look(op: Any) -> Any:
        if not context().is_registered_operation(op.name):
            found.add(op.name.partition(".")[0])
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return found


def _is_artifact(contents: bytes) -> bool:
    return contents.startswith(_BYTECODE) and contents.startswith(_ARTIFACT, len(_BYTECODE) + 1)


def _deserialize(artifact: bytes, file: str | None) -> Any:
    with told() as messages:
        try:
            return _stablehlo.deserialize_portable_artifact(context(), artifact)
        except ValueError as error:
            if any(f"dialect '{shardy.DIALECT}'" in message for message in messages):
                messages[:] = ["it holds ops of Shardy's, which can be read in text only"]
            raise ParseError("; ".join(messages) or str(error), file) from None


@stage
@progress.during("parse")
def read(path: str | Path, dialects: Collection[str] = ()) -> Any:
    """The `ir.Module` in a file; `TiducError` where it cannot be read, `ParseError` where it holds none.

    `dialects` are those of `parse`.
    """
    if not str(path):
        raise TiducError("the name of the file is empty")
    try:
        contents = read_whole(path)
        # A pipe, as of the shell's `<(command)`, gives what it holds once.
        once = not Path(path).is_file()
        if once:
            progress.keep(contents)
        nameable = _is_text(str(path))  # MLIR takes names in UTF-8
        if once or not nameable or _is_artifact(contents) or _with_shardy(contents) is not None:
            return parse(contents, str(path), dialects)
        _check(contents, str(path))
        # And not `parse`: locations are to name the file.
        return _parsed(ir.Module.parseFile, str(path), dialects)
    except ir.MLIRError as error:
        raise _unread(error, str(path), contents) from None
    except OSError as error:
        raise TiducError(error.strerror or str(error), str(path)) from None


@stage
def run_passes(operation: Any, pipeline: str, verify: bool = False) -> None:
    """Runs a textual pipeline of native passes on an operation, in place."""
    try:
        manager = PassManager.parse(pipeline)
    except ValueError as error:
        raise TiducError(str(error)) from None
    manager.enable_verifier(verify)
    manager.run(operation)
