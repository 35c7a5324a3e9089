"""PyTorch's `.pt2` files from people whom nobody knows: `torch.export.load` without what would run their code.

a pickle                        tensors of subclasses, sample inputs, opaque objects; refused as it names a function
data/aotinductor/               machine code, which PyTorch links; refused
data/constants/custom_obj_...   objects of C++ classes; refused
"expr_str": "Symbol('s0')"      a size, which SymPy evaluates as Python; only calls of SymPy's classes pass
"__enum__", "default_factory"   the type of an argument, whose module PyTorch imports; only modules that are there
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from tiduc.dialect.errors import TiducError

_CODE, _OBJECTS = "data/aotinductor/", ("data/constants/custom_obj_", "data/constants/opaque_obj_")
_NAME_OR_NUMBER = re.compile(r"[\w.+-]*")  # without a bracket, SymPy calls nothing that a string names
_EXPRESSION = (
    *(ast.Expression, ast.Call, ast.keyword, ast.Name, ast.Load, ast.Constant, ast.Tuple),
    *(ast.UnaryOp, ast.unaryop, ast.BinOp, ast.operator, ast.Compare, ast.cmpop, ast.BoolOp, ast.boolop),
)

_reading: ContextVar[list[str] | None] = ContextVar("reading", default=None)
"""While a file is read: what its pickles name that was refused."""


def load_export(torch: Any, path: str, trust: bool) -> Any:
    """The `ExportedProgram` in a file; without `trust`, `TiducError` where reading it would run code of the file's."""
    if trust:
        return torch.export.load(path)
    with without_pickles(path):
        _check(torch, path)
        return torch.export.load(path)


def _refusal(path: str, what: str) -> TiducError:
    return TiducError(
        f"reading the file {what}: a program of its author's. If you trust that author, pass --trust "
        "(in Python, trust=True)",
        path,
    )


# ---- pickles -----------------------------------------------------------------------------------------------


@contextmanager
def without_pickles(path: str) -> Iterator[None]:
    """Refuses, in the block, each pickle that names a class or a function; tensors are read without such."""
    _watch()
    token = _reading.set([])
    try:
        yield
    except Exception:
        if found := _reading.get():
            raise _refusal(path, f"would run a pickle that calls {found[0]}") from None
        raise
    finally:
        _reading.reset(token)


@cache
def _watch() -> None:
    """Has Python ask before a pickle names something; there is no way to end that."""
    sys.addaudithook(_audit)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "pickle.find_class" and (refused := _reading.get()) is not None:
        refused.append(".".join(map(str, arguments)))
        raise PermissionError("a pickle names a class or a function")


# ---- the rest ----------------------------------------------------------------------------------------------


def _check(torch: Any, path: str) -> None:
    """`TiducError` where PyTorch would run code that is no pickle. Reads the archive as `torch.export.load` does."""
    reader = torch._C.PyTorchFileReader(path)
    for name in reader.get_all_records():
        if name.startswith(_CODE):
            raise _refusal(path, "would link machine code")
        if name.startswith(_OBJECTS):
            raise _refusal(path, "would make objects")
        if name.endswith(".json"):
            for entry in _dicts(reader.get_record(name)):
                _check_entry(path, entry)


def _check_entry(path: str, entry: dict[str, Any]) -> None:
    expression = entry.get("expr_str")
    if isinstance(expression, str) and not _is_expression(expression):
        raise _refusal(path, f"would evaluate {expression[:80]!r}")
    modules = []
    if "__enum__" in entry:
        modules.append(str(entry.get("fqn")).partition(":")[0])
    if "default_factory_module" in entry:
        modules.append(str(entry["default_factory_module"]))
    for module in modules:
        if module not in sys.modules:
            raise _refusal(path, f"would import {module}")


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    """All dictionaries in a JSON document, in strings that are such documents too."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _dicts(each)
    elif isinstance(value, str | bytes):
        try:
            within = json.loads(value)
        except ValueError:
            return
        yield from _dicts(within)


def _is_expression(text: str) -> bool:
    """Whether the text makes numbers and calls classes of SymPy's, and does nothing else."""
    import sympy

    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    for node in ast.walk(tree):
        if not isinstance(node, _EXPRESSION):
            return False
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if not _NAME_OR_NUMBER.fullmatch(node.value):
                return False
        if isinstance(node, ast.Call) and not (
            isinstance(node.func, ast.Name) and _is_class(sympy, node.func.id)
        ):
            return False
    return True


def _is_class(sympy: Any, name: str) -> bool:
    from torch.utils._sympy import functions

    found = getattr(sympy, name, None) or getattr(functions, name, None)
    return isinstance(found, type) and issubclass(found, sympy.Basic)
