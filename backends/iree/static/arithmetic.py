"""Translates scalar ops of the host code (dialect `arith`) to C expressions."""

from collections.abc import Callable

from iree.compiler import ir

from tiduc.backends.iree.modules.ops import IrValue

_BINARY = {
    "addi": "+", "subi": "-", "muli": "*", "andi": "&", "ori": "|", "xori": "^",
    "addf": "+", "subf": "-", "mulf": "*", "divf": "/",
}  # fmt: skip
_COMPARE = "== != < <= > >= < <= > >=".split()
_FLOATS = {1: "==", 2: ">", 3: ">=", 4: "<", 5: "<=", 13: "!="}
"""Maps the numbers of MLIR's float predicates to C operators. Omits predicates that no C operator matches for NaN."""

Use = Callable[[IrValue], str]
"""A function that returns the C expression of an operand."""


def expression(op: ir.Operation, use: Use) -> str | None:
    """Returns the C expression of an op of the dialect `arith`. Returns None for unsupported ops and other dialects.

    Sums, differences and products of integers wrap around in MLIR. The C code therefore computes them as unsigned
    integers.
    """
    dialect, _, name = op.name.partition(".")
    if dialect != "arith":
        return None
    if name == "constant":
        return _constant(op)
    kind = str(op.results[0].type)
    values = [use(value) for value in op.operands]
    if name in _BINARY:
        x, y = values
        if name in ("addi", "subi") and kind == "i1":
            return f"{x} ^ {y}"
        if name.endswith("f") or kind == "i1":
            return f"{x} {_BINARY[name]} {y}"
        # C converts operands of type uint16_t to int, and their product may overflow an int.
        wide = "uint32_t" if kind in ("i8", "i16") else _unsigned(kind)
        return f"({_signed(kind)})(({wide}){x} {_BINARY[name]} ({wide}){y})"
    if name == "select":
        return f"{values[0]} ? {values[1]} : {values[2]}"
    if name in ("cmpi", "cmpf"):
        return _comparison(op, *values)
    return _division(name, kind, values) or _conversion(op, name, values[0])


def _signed(kind: str) -> str:
    return f"int{64 if kind == 'index' else kind[1:]}_t"


def _unsigned(kind: str) -> str:
    return f"u{_signed(kind)}"


def _constant(op: ir.Operation) -> str | None:
    value, kind = op.attributes["value"], str(op.results[0].type)
    if kind in ("f32", "f64"):
        return _float(value.value, "f" if kind == "f32" else "")
    if kind == "i1":
        return "true" if bool(value.value) else "false"
    number = int(value.value)
    if abs(number) < 2**31:
        return str(number) if number >= 0 else f"({number})"
    return f"INT64_C({number})" if number > -(2**63) else "INT64_MIN"


def _float(value: float, suffix: str) -> str:
    if value != value:
        return "(0.0 / 0.0)"
    if value in (float("inf"), float("-inf")):
        return f"({'-' if value < 0 else ''}1.0 / 0.0)"
    return value.hex() + suffix


def _comparison(op: ir.Operation, x: str, y: str) -> str | None:
    number, kind = int(op.attributes["predicate"].value), str(op.operands[0].type)
    if op.name == "arith.cmpf":
        return f"{x} {_FLOATS[number]} {y}" if number in _FLOATS else None
    if number >= 6 and kind != "i1":
        x, y = f"({_unsigned(kind)}){x}", f"({_unsigned(kind)}){y}"
    elif kind == "i1" and 2 <= number < 6:  # a signed i1 is 0 or -1
        x, y = f"-{x}", f"-{y}"
    return f"{x} {_COMPARE[number]} {y}"


def _division(name: str, kind: str, values: list[str]) -> str | None:
    """Returns the C expression of an integer division, remainder, minimum, maximum or shift. None for other ops."""
    if len(values) != 2 or kind[:1] == "f" or kind == "i1":
        return None
    x, y = values
    plain, unsigned = f"({_signed(kind)})", f"({_unsigned(kind)})"
    ux, uy = unsigned + x, unsigned + y
    # A shift by the width or more is undefined behavior in C. In MLIR, only its result is undefined.
    count = f"({uy} & {63 if kind == 'index' else int(kind[1:]) - 1})"
    forms = {
        "divsi": f"{x} / {y}",
        "remsi": f"{x} % {y}",
        "divui": f"{plain}({ux} / {uy})",
        "remui": f"{plain}({ux} % {uy})",
        "ceildivui": f"{plain}({ux} / {uy} + ({ux} % {uy} != 0))",
        "ceildivsi": f"{x} / {y} + ({x} % {y} != 0 && ({x} < 0) == ({y} < 0))",
        "floordivsi": f"{x} / {y} - ({x} % {y} != 0 && ({x} < 0) != ({y} < 0))",
        "minsi": f"{x} < {y} ? {x} : {y}",
        "maxsi": f"{x} > {y} ? {x} : {y}",
        "minui": f"{ux} < {uy} ? {x} : {y}",
        "maxui": f"{ux} > {uy} ? {x} : {y}",
        "shli": f"{plain}({ux} << {count})",
        "shrui": f"{plain}({ux} >> {count})",
        "shrsi": f"{x} >> {count}",
    }
    return forms.get(name)


def _conversion(op: ir.Operation, name: str, x: str) -> str | None:
    """Returns the C expression of a conversion between numbers, or of a float negation. None for other ops."""
    of, to = str(op.operands[0].type), str(op.results[0].type)
    if name in ("extsi", "index_cast", "trunci", "sitofp", "fptosi", "extf", "truncf"):
        source = f"-(int){x}" if of == "i1" and name != "trunci" else x
        if to == "i1":
            return f"({source} & 1) != 0"
        return f"({_float_type(to) or _signed(to)}){source}"
    if name in ("extui", "index_castui", "uitofp"):
        source = x if of == "i1" else f"({_unsigned(of)}){x}"
        return f"({_float_type(to) or _signed(to)}){source}"
    return f"-{x}" if name == "negf" else None


def _float_type(kind: str) -> str:
    return {"f32": "float", "f64": "double"}.get(kind, "")
