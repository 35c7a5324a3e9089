"""The function of a module that a program is."""

from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph import operations


def entry_of(module: Any, entry: str | None) -> str:
    """The name of the function or graph to load: the one asked for, `main`, or the only one."""
    names = [
        str(ir.StringAttr(op.attributes["sym_name"]).value)
        for op in operations(module.body)
        if (op.name == "tidu.graph" and "sym_visibility" not in op.attributes)
        or (op.name == "func.func" and _is_public(op))
    ]
    if entry is None:
        entry = names[0] if len(names) == 1 else "main"
    if entry not in names:
        raise RequestError(
            f"no public function @{entry}; there are {', '.join(f'@{n}' for n in names) or 'none'}"
        )
    return entry


def _is_public(function: Any) -> bool:
    visibility = function.attributes.get("sym_visibility")
    return len(function.regions[0].blocks) > 0 and (visibility is None or visibility.value == "public")
