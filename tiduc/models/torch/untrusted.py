"""Loads PyTorch's `.pt2` files from untrusted sources: `torch.export.load` without running code from the file.

a pickle                        subclass tensors, sample inputs, opaque objects; refused when it names a function
data/aotinductor/               machine code, which PyTorch would link; refused
data/constants/custom_obj_...   objects of C++ classes; refused
"expr_str": "Symbol('s0')"      a size, which SymPy evaluates as Python; only calls of SymPy classes pass
"__enum__", "default_factory"   an argument's type, whose module PyTorch imports; only loaded modules pass
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
"""The names refused so far in the pickles of the file that is being read; None outside of a read."""


def load_export(torch: Any, path: str, trust: bool) -> Any:
    """The `ExportedProgram` in a file; without `trust`, `TiducError` where reading the file would run its code."""
    if trust:
        return torch.export.load(path)
    with without_pickles(path):
        _check(torch, path)
        _register_types(torch, path)
        return torch.export.load(path)


def _refusal(path: str, risk: str) -> TiducError:
    return TiducError(
        f"reading the file {risk}: a program of its author's. If you trust that author, pass --trust "
        "(in Python, trust=True)",
        path,
    )


# ---- pickles -----------------------------------------------------------------------------------------------


@contextmanager
def without_pickles(path: str) -> Iterator[None]:
    """Refuses, in the block, each pickle that names a class or a function; plain tensors name neither."""
    _watch()
    token = _reading.set([])
    try:
        yield
    except Exception:
        if refused := _reading.get():
            raise _refusal(path, f"would run a pickle that calls {refused[0]}") from None
        raise
    finally:
        _reading.reset(token)


@cache
def _watch() -> None:
    """Installs an audit hook that sees each name a pickle looks up. Python cannot remove an audit hook."""
    sys.addaudithook(_audit)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "pickle.find_class" and (refused := _reading.get()) is not None:
        refused.append(".".join(map(str, arguments)))
        raise PermissionError("a pickle names a class or a function")


# ---- the rest ----------------------------------------------------------------------------------------------


def _check(torch: Any, path: str) -> None:
    """`TiducError` where PyTorch would run code outside of pickles. Reads the archive as `torch.export.load` does."""
    reader = torch._C.PyTorchFileReader(path)
    for name in reader.get_all_records():
        if name.startswith(_CODE):
            raise _refusal(path, "would link machine code")
        if name.startswith(_OBJECTS):
            raise _refusal(path, "would make objects")
        if name.endswith(".json"):
            for entry in _dicts(reader.get_record(name)):
                _check_entry(path, entry)


def _register_types(torch: Any, path: str) -> None:
    """Registers a stand-in for each container type of the file's arguments and results that PyTorch does not know.

    Results of models of transformers have such types. The package that defines a type replaces its stand-in.
    """
    from torch.utils import _pytree

    reader = torch._C.PyTorchFileReader(path)
    records = [reader.get_record(name) for name in reader.get_all_records() if name.endswith(".json")]
    specs = [entry for record in records for entry in _dicts(record) if "children_spec" in entry]
    names = {entry["type"] for entry in specs if isinstance(entry.get("type"), str)}
    for name in names.difference(_pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE):
        _pytree.register_pytree_node(
            type("StandIn", (tuple,), {}),
            lambda xs: (list(xs), None),
            lambda xs, _: tuple(xs),
            serialized_type_name=name,
            to_dumpable_context=lambda context: context,
            from_dumpable_context=lambda context: context,
        )


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
    """All dictionaries in a JSON document, including those in strings that are JSON themselves."""
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
    """Whether the text only makes numbers and calls SymPy classes."""
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

    value = getattr(sympy, name, None) or getattr(functions, name, None)
    return isinstance(value, type) and issubclass(value, sympy.Basic)
