"""Writes the scalar ops of a program as functions of LLVM's dialect, which IREE's compiler turns into an object file.

The kernel has the interface of IREE's kernels. Its bindings are the arguments and then the results of the program.
Results must not overlap arguments in memory. If arrays have a lane, which is a dimension such as a batch, a first
function computes all that is equal at the lane's indices, which are called places. A loop then calls a second function,
which computes several places, as vectors:

    first(arguments, results, kept)               stores numbers that the second function needs in `kept`
    place(arguments, results, kept, 0)            computes places 0 to 3
    place(arguments, results, kept, 3)            computes places 3 to 6; place 3 is computed twice
"""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from tiduc.backends.iree.static.scalars.function_code import ArrayPort, FunctionCode
from tiduc.backends.iree.static.scalars.numbers import BASIS, CONSTANT, INPUT, OPERATORS, ZERO, ScalarOps

_STATE = (
    '!llvm.struct<"iree_hal_executable_dispatch_state_v0_t", '
    "(i32, i32, i16, i16, i32, i32, i16, i8, i8, ptr, ptr, ptr)>"
)
_POINTER = "{llvm.align = 16 : i64, llvm.noalias, llvm.nonnull, llvm.noundef}"


class Scalars(NamedTuple):
    """A program as scalar ops, its arguments and its results.

    `places` is the size of the lane, the dimension along which all elements are computed alike, or 1 without a lane.
    """

    numbers: ScalarOps
    inputs: list[ArrayPort]
    outputs: list[ArrayPort]
    places: int


_COSTS = {CONSTANT: 0, ZERO: 0, INPUT: 0, "divide": 5, "sqrt": 8} | {
    name: 40 for name, operator in OPERATORS.items() if operator.library
}
"""The approximate cost of scalar ops, in additions. The cost of other ops is 1."""


class SplitByLane:
    """The scalar ops that the results of a program need. `first` has those equal at all places, `later` the others."""

    def __init__(self, found: Scalars) -> None:
        numbers, inputs = found.numbers, found.inputs
        needed = [False] * len(numbers.all)
        for port in found.outputs:
            for i in port.array.ids.ravel().tolist():
                needed[i] = True
        for i in range(len(needed) - 1, -1, -1):
            if needed[i]:
                for x in numbers.operands(i):
                    needed[x] = True
        varies = [False] * len(needed)
        for i, number in enumerate(numbers.all):
            if number.name == INPUT:
                varies[i] = inputs[number.operands[0]].array.lane is not None
            else:
                varies[i] = number.name == BASIS or any(varies[x] for x in numbers.operands(i))
        self._numbers, self._outputs, self._varies = numbers, found.outputs, varies
        self.first = [i for i, need in enumerate(needed) if need and not varies[i]]
        self.later = [i for i, need in enumerate(needed) if need and varies[i]]

    @cached_property
    def read_later(self) -> list[int]:
        """The ops of `first` whose results the ops of `later` or the results along the lane need."""
        needed = {x for i in self.later for x in self._numbers.operands(i)}
        for port in self._outputs:
            if port.array.lane is not None:
                needed.update(port.array.ids.ravel().tolist())
        return [i for i in self.first if i in needed]

    @property
    def kept(self) -> list[int]:
        """The ops of `read_later` that are neither constants nor arguments."""
        return [i for i in self.read_later if self._numbers.all[i].name not in (CONSTANT, ZERO, INPUT)]

    def cost(self, repeats: float) -> float:
        """Returns the approximate cost of the code, in additions, if the ops of `later` run `repeats` times."""
        names = [number.name for number in self._numbers.all]
        first, later = (sum(_COSTS.get(names[i], 1) for i in side) for side in (self.first, self.later))
        return first + repeats * later


def module_code(name: str, found: Scalars, width: int) -> str:
    """Returns the text of the kernel `name`_kernel of a program, and of the functions that the kernel calls.

    Vectors hold values for `width` consecutive places of the lane, at most `found.places`.
    """
    ports = found.inputs, found.outputs
    names = [f"%{side}{i}" for side, of in zip(("in", "out"), ports, strict=True) for i in range(len(of))]
    if found.places == 1:
        code = FunctionCode(found.numbers, found.inputs)
        code.store_results(found.outputs)
        return code.text(f"{name}_body", names) + _kernel(name, names, [_call(f"{name}_body", names)])
    parts = SplitByLane(found)
    first = FunctionCode(found.numbers, found.inputs)
    first.store_results([None if y.array.lane is not None else y for y in found.outputs])
    offsets = first.keep(parts.kept)
    later = FunctionCode(found.numbers, found.inputs, width, offsets)
    later.store_results([None if y.array.lane is None else y for y in found.outputs])
    last = found.places - width
    lines = [
        f"%words = llvm.mlir.constant({max(1, len(offsets))} : i64) : i64",
        "%kept = llvm.alloca %words x i64 {alignment = 64 : i64} : (i64) -> !llvm.ptr",
        _call(f"{name}_first", [*names, "%kept"]),
        "%zero = llvm.mlir.constant(0 : i64) : i64",
        f"%last = llvm.mlir.constant({last} : i64) : i64",
        f"%step = llvm.mlir.constant({width} : i64) : i64",
        "llvm.br ^loop(%zero : i64)\n^loop(%place: i64):",
        _call(f"{name}_place", [*names, "%kept", "%place"]),
        "%sum = llvm.add %place, %step : i64",
        "%next = llvm.intr.smin(%sum, %last) : (i64, i64) -> i64",
        '%more = llvm.icmp "slt" %place, %last : i64',
        "llvm.cond_br %more, ^loop(%next : i64), ^end\n^end:",
    ]
    return "".join(
        (
            first.text(f"{name}_first", [*names, "%kept"]),
            later.text(f"{name}_place", [*names, "%kept", "%place"]),
            _kernel(name, names, lines),
        )
    )


def _type(name: str) -> str:
    return "i64" if name == "%place" else "!llvm.ptr"


def _call(name: str, arguments: Sequence[str]) -> str:
    return f"llvm.call @{name}({', '.join(arguments)}) : ({', '.join(map(_type, arguments))}) -> ()"


def _kernel(name: str, names: Sequence[str], body: Sequence[str]) -> str:
    """Returns the text of the kernel, which reads the pointers to the arrays. `body` are the lines that follow."""
    lines = [
        f"%s = llvm.load %state : !llvm.ptr -> {_STATE}",
        f"%b = llvm.extractvalue %s[10] : {_STATE}",
    ]
    for i, each in enumerate(names):
        lines.append(f"%at{i} = llvm.getelementptr %b[{i}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr")
        lines.append(f"{each} = llvm.load %at{i} : !llvm.ptr -> !llvm.ptr")
    lines += [*body, "%status = llvm.mlir.constant(0 : i32) : i32", "llvm.return %status : i32"]
    given = ", ".join(f"%{each}: !llvm.ptr {_POINTER}" for each in ("environment", "state", "group"))
    return f"llvm.func @{name}_kernel({given}) -> i32 {{\n" + "\n".join(lines) + "\n}"
