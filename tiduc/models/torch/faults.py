"""Turns exceptions of PyTorch and torch-mlir into errors with the line of the user's code, the module and advice."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tiduc.dialect.errors import CompileError, TiducError

if TYPE_CHECKING:
    import torch

_PLACE = re.compile(r'File "([^"]+)", line (\d+)')
_TIDUC = re.escape(str(Path(__file__).parents[2]))
_PACKAGES = re.compile(rf"[/\\](?:site|dist)-packages[/\\](?:torch|torch_mlir)[/\\]|^{_TIDUC}[/\\]")
"""Matches the paths of files of PyTorch, torch-mlir and tiduc. All other files are the user's code."""

_OPERATOR = re.compile(r"torch\.aten\.([\w.]+)")
_ANNOUNCES = re.compile(r":$|^Constraints violated")
_ADVICE = re.compile(r" For more information, run with \S+")
_LOGGERS = ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes")

_WAYS_OUT = (
    (
        re.compile("data-dependent|unbacked|runtime.assert|_local_scalar_dense|GuardOnDataDependent"),
        "a size or a branch depends on data; use torch.where, torch.cond, or a size that is a number",
    ),
    (re.compile("alias"), "an operand or a result is the same tensor as another; clone one of them"),
    (
        re.compile("with_effects|effect"),
        "an op has a side effect; leave it out of the module that is exported",
    ),
    (
        re.compile("Dim|dynamic_shapes|specializ"),
        "leave out dynamic_shapes, or change the dimension that it names",
    ),
    (
        re.compile(r"fake tensor in the exported program|no attribute 'constant'|data pointer of Tensor"),
        "a derivative in the module must be torch.func.jvp, or be that of a program of tiduc",
    ),
    (
        re.compile("Found .* in output, which is not a known type"),
        "return tensors only; models of transformers do with use_cache=False",
    ),
    (re.compile(r"\.numpy\(\)"), "compute with functions of PyTorch in place of NumPy's"),
    (re.compile("positional argument"), "example_inputs needs a value for each argument of forward"),
    (
        re.compile("to StableHLO"),
        "write the function in other ops of PyTorch, or give its result as an input",
    ),
    (
        re.compile("torch-mlir cannot (?:lower|import) the model"),
        "export parts of the module alone to find the function, and write it in other functions of PyTorch",
    ),
)
"""Pairs of a pattern and advice. The advice is appended to an error message that the pattern matches."""


@contextmanager
def located(
    step: str,
    kind: type[TiducError],
    module: "torch.nn.Module | None" = None,
    exported: "torch.export.ExportedProgram | None" = None,
) -> Iterator[None]:
    """Context manager that adds the line of the user's code and a module's name to each `TiducError` in its body.

    Other exceptions become errors of class `kind`, whose message begins with `step`. If `module`, the module that is
    being exported, is given, the name is that of the innermost submodule in the traceback. If `exported`, an
    `ExportedProgram`, is given, the name is found by the line, in the program's stack traces.
    """
    try:
        yield
    except CompileError:
        raise
    except TiducError as error:
        line, name = _traced(error, module)
        place = (
            error.location
            or _line_in(str(error.args[0]))
            or line
            or _line_of_operator(exported, error.message)
        )
        error.location, name_of_module = _recorded(exported, place)
        error.message = _with_module(error.message, name_of_module or name)
        raise
    except Exception as error:
        line, name = _traced(error, module)
        line, name_of_module = _recorded(exported, _line_in(str(error)) or line)
        message = _with_module(f"{step}: {message_of_torch(error)}", name_of_module or name)
        raise kind(message, line) from error


def message_of_torch(error: BaseException) -> str:
    """The first line of the error's message. If this line only announces the next line, returns both lines.

    If the message is empty, returns the name of the error's type.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return _ADVICE.sub("", " ".join(lines[: 2 if _ANNOUNCES.search(lines[0]) else 1]))


@contextmanager
def quiet() -> Iterator[None]:
    """Context manager that turns off the loggers that print the graph and the traceback of an error of PyTorch."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def _with_module(message: str, name: str | None) -> str:
    """Appends the module's name and the first matching advice in `_WAYS_OUT`, if there are any, to the message."""
    ways = [way for pattern, way in _WAYS_OUT if pattern.search(message)]
    named = f" (in {name})" if name else ""
    return f"{message}{named}{f'; {ways[0]}' if ways else ''}"


def _line_in(text: str) -> str:
    """The last line of the user's code that a message of PyTorch contains, as `file:line:0`, or "" if there is none."""
    places = [place for place in _PLACE.findall(text) if not _PACKAGES.search(place[0])]
    return f"{places[-1][0]}:{places[-1][1]}:0" if places else ""


def _line_of_operator(exported: "torch.export.ExportedProgram", message: str) -> str:
    """The line of the user's code that first calls an operator named in `message`, or "" if it is not known."""
    names = {f"aten.{name}" for name in _OPERATOR.findall(message)}
    for node in exported.graph.nodes if exported is not None and names else ():
        target = str(node.target)
        if target in names or target.rpartition(".")[0] in names:
            return _line_in(node.meta.get("stack_trace") or "")
    return ""


def _traced(error: BaseException, module: "torch.nn.Module") -> tuple[str, str | None]:
    """The last line of the user's code in the error's traceback, and the name of the innermost submodule in it.

    Returns ("", None) if the traceback has no submodule of `module`.
    """
    line, name, trace = "", None, error.__traceback__
    paths = (
        {id(inner): path for path, inner in module.named_modules()}
        if hasattr(module, "named_modules")
        else {}
    )
    while trace is not None:
        frame = trace.tb_frame
        if not _PACKAGES.search(frame.f_code.co_filename) and paths:
            line = f"{frame.f_code.co_filename}:{trace.tb_lineno}:0"
        own = frame.f_locals.get("self")
        if id(own) in paths:
            name = _name(paths[id(own)], type(own).__name__)
        trace = trace.tb_next
    return (line, name) if name else ("", None)


def _recorded(exported: "torch.export.ExportedProgram | None", location: str) -> tuple[str, str | None]:
    """Looks up `location` in the stack traces that the export recorded for its nodes.

    Returns the line of the user's code in the first such stack trace and the name of its module, or (location, None) if
    no stack trace contains the location.
    """
    place = tuple(location.split(":")[:2])
    for node in exported.graph.nodes if exported is not None and location else ():
        text, stack = node.meta.get("stack_trace") or "", node.meta.get("nn_module_stack")
        if stack and place in _PLACE.findall(text):
            path, kind = list(stack.values())[-1]
            return _line_in(text) or location, _name(
                path, str(getattr(kind, "__name__", kind)).rpartition(".")[2]
            )
    return location, None


def _name(path: str, kind: str) -> str:
    path = path.removeprefix("L['self'].").removeprefix("L['self']")
    return f"the module {path}, {kind}" if path else f"the module {kind}"
