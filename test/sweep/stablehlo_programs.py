"""Converts StableHLO's own test programs to functions that tiduc can compile.

For each check in a test program, the function returns two results: the checked and the expected value. `agree` compares
them.
"""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.dialect.mlir.context import parse, run_passes, stage

UNITS = 64  # the tolerance in units in the last place; the errors of IREE's asin and atan are up to 40 units

SLICES = ("stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice")

_CONST = re.compile(
    r"check\.(expect_\w+)_const\s+(%[\w#]+),\s*(dense<.*?>)\s*((?:,\s*\w+ = [^:]*?)?):\s*(tensor<[^\n]*>)",
    re.S,
)
_PAIR = re.compile(r"check\.(expect_\w+)\s+(%[\w#]+),\s*(%[\w#]+)[^:\n]*:\s*(tensor<[^\n]*>)")
# Programs that are left out. For the long number, XLA and IREE compute another last element than the test expects.
_NOT_HERE = re.compile(
    r"interpreter\.|expect_serialized|replica_groups|source_target_pairs|collective|f8E|f4E|f6E|dense<3349939604322698703>"
)


def programs(text: str) -> Iterator[str]:
    """Yields the programs of a file. Checks are replaced by custom calls, which the MLIR bindings can parse."""
    for part in re.split(r"^// -----.*$", text, flags=re.M):
        if "check." not in part or _NOT_HERE.search(part):
            continue
        count = iter(range(1_000_000))

        def constant(match: re.Match[str]) -> str:
            name, x, value, _, type_ = match.groups()
            y = f"%expected_{next(count)}"  # noqa: B023  (only called in this iteration)
            return (
                f"{y} = stablehlo.constant {value} : {type_}\n"
                f'"stablehlo.custom_call"({x}, {y}) {{call_target_name = "check.{name}", has_side_effect = true}}'
                f" : ({type_}, {type_}) -> ()"
            )

        part = _CONST.sub(constant, part)
        yield _PAIR.sub(
            r'"stablehlo.custom_call"(\2, \3) {call_target_name = "check.\1", has_side_effect = true}'
            r" : (\4, \4) -> ()",
            part,
        )


@stage
def pairs_returned(text: str) -> list[Any]:
    """Makes a module of each function with checks. The function is called `main` and has no arguments.

    It returns each checked value followed by the expected value.
    """
    source = parse(text)
    run_passes(source.operation, "builtin.module(inline,symbol-dce)")
    names = [op.operation.attributes["sym_name"].value for op in source.body.operations]
    modules = []
    for name in names:
        module = ir.Module.parse(str(source))
        functions = {op.operation.attributes["sym_name"].value: op.operation for op in module.body.operations}
        if not _rewrite(functions.pop(name)):
            continue
        for other in functions.values():
            if "check." in str(other):
                other.erase()
            else:
                other.attributes["sym_visibility"] = ir.StringAttr.get("private")
        run_passes(module.operation, "builtin.module(symbol-dce)")
        modules.append(module)
    return modules


def _rewrite(function: Any) -> bool:
    """Makes a function return its checked and expected values instead of checking them.

    Optimization barriers hide the function's constants from constant folding. Returns False if there are no checks.
    """
    pairs: list[Any] = []
    checks: list[Any] = []
    kinds, type_ = [], ir.TypeAttr(function.attributes["function_type"]).value
    if len(type_.inputs) or not len(function.regions[0].blocks):
        return False
    block = function.regions[0].blocks[0]
    for op in list(block.operations):
        op = op.operation
        if op.name == "stablehlo.custom_call" and str(op.attributes["call_target_name"])[1:].startswith(
            "check."
        ):
            pairs += list(op.operands)
            kinds.append(str(op.attributes["call_target_name"])[1:-1])
            checks.append(op)
        elif op.name == "stablehlo.constant" and not _is_size(op):
            ip = ir.InsertionPoint(list(block.operations)[0])
            hidden = ir.Operation.create(
                "stablehlo.optimization_barrier", [op.results[0].type], [op.results[0]], ip=ip
            )
            op.results[0].replace_all_uses_except(hidden.result, hidden)
            hidden.move_after(op)
    if not pairs:
        return False
    old = list(block.operations)[-1].operation
    ir.Operation.create("func.return", operands=pairs, ip=ir.InsertionPoint(old))
    for gone in (old, *checks):
        gone.erase()
    types = ir.FunctionType.get([], [x.type for x in pairs])
    function.attributes["function_type"] = ir.TypeAttr.get(types)
    function.attributes["sym_name"] = ir.StringAttr.get("main")
    function.attributes["checks"] = ir.ArrayAttr.get([ir.StringAttr.get(kind) for kind in kinds])
    for name in ("res_attrs", "arg_attrs", "sym_visibility"):
        if name in function.attributes:
            del function.attributes[name]
    return True


def _is_size(op: Any) -> bool:
    """Returns whether a constant is only read as a size by ops such as dynamic_iota.

    A barrier must not hide such a constant.
    """
    users = [(use.owner.operation.name, use.operand_number) for use in op.results[0].uses]
    return all(i and "dynamic" in name and name not in SLICES for name, i in users)


def _main(module: Any) -> Any:
    """Returns the function `main`, or the first function if no function has this name."""
    functions = [op.operation for op in module.body.operations]
    named = [f for f in functions if f.attributes["sym_name"].value == "main"]
    return (named or functions)[0]


@stage
def take_kinds(module: Any) -> list[str]:
    """Removes the attribute with the kinds of checks from a function, and returns these kinds in order."""
    attributes = _main(module).attributes
    if "checks" not in attributes:
        return []
    kinds = [kind.value for kind in attributes["checks"]]
    del attributes["checks"]
    return kinds


@stage
def renamed(module: Any, name: str) -> str | None:
    """Returns the text of a module's only function, with the name `name`.

    Returns None if the module has several functions.
    """
    functions = list(module.body.operations)
    if len(functions) != 1:
        return None
    functions[0].operation.attributes["sym_name"] = ir.StringAttr.get(name)
    text = str(functions[0].operation)
    functions[0].operation.attributes["sym_name"] = ir.StringAttr.get("main")
    return text if text.startswith("func.func") else None  # other text begins with other definitions


def agree(x: Any, y: Any, kind: str) -> bool:
    """Returns whether integers are equal, and floats are within a tolerance.

    The tolerance is `UNITS` units in the last place of the element, plus a few units of the largest element. If `kind`
    contains "almost", the larger tolerance of StableHLO's interpreter is also accepted.
    """
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype.kind == "c":
        return agree(x.real, y.real, kind) and agree(x.imag, y.imag, kind)
    if x.dtype.kind in "iub":
        return bool(np.array_equal(x, y))
    units = float(np.finfo(x.dtype).eps) if x.dtype.kind == "f" else 2.0**-7
    x, y = x.astype(np.float64), y.astype(np.float64)
    finite = np.isfinite(y)
    if not np.array_equal(x[~finite], y[~finite], equal_nan=True):
        return False
    x, y = x[finite], y[finite]
    if "almost" in kind and np.all(np.abs(x - y) <= 1e-4 * np.maximum(1, np.abs(y))):
        return True  # within the interpreter's tolerance, which is too small for f16 and bf16
    largest = np.max(np.abs(y), initial=0)
    return bool(np.all(np.abs(x - y) <= units * (UNITS * np.abs(y) + 8 * largest) + 1e-30))


@stage
def holds_denormals(module: Any, values: Any) -> bool:
    """Returns whether an element of the function's constants or of `values` is a subnormal float."""
    return any(map(_denormal, (*values, *_constants(module))))


def _constants(module: Any) -> list[Any]:
    """Returns the real constants of a function as arrays."""
    block = _main(module).regions[0].blocks[0]
    values = [op.operation.attributes["value"] for op in block if op.operation.name == "stablehlo.constant"]
    if any("0x" in str(v) for v in values if "bf16" in str(v.type)):
        return [np.float32(1e-40)]  # MLIR prints bf16 constants in hexadecimal only if they may be subnormal
    return [
        np.array(v) for v in values if isinstance(v, ir.DenseFPElementsAttr) and "bf16" not in str(v.type)
    ]


def _denormal(x: Any) -> bool:
    x = np.asarray(x)
    if x.dtype.kind in "iubc":
        return False
    tiny = 1e-4 if x.dtype == np.float16 else 2.0**-1022 if x.dtype == np.float64 else 2.0**-126
    size = np.abs(x.astype(np.float64))
    return bool(np.any((size < tiny) & (size != 0)))
