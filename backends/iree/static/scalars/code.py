"""Writes the scalar ops of a program as a function of LLVM's dialect, which IREE's compiler turns into an object file.

The function has the interface of IREE's kernels. Its bindings are the arguments and then the results of the program.
Results must not overlap arguments in memory. If arrays have a lane, which is a dimension such as a batch, the function
is a loop over the lane's indices, which are called places. Each iteration computes several places, as vectors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tiduc.backends.iree.static.scalars.arrays import ScalarArray
from tiduc.backends.iree.static.scalars.numbers import (
    COMPARISONS,
    CONSTANT,
    FLOATS,
    INPUT,
    OPERATORS,
    ZERO,
    ScalarOp,
    ScalarOps,
)

_STATE = (
    '!llvm.struct<"iree_hal_executable_dispatch_state_v0_t", '
    "(i32, i32, i16, i16, i32, i32, i16, i8, i8, ptr, ptr, ptr)>"
)
_POINTER = "{llvm.align = 16 : i64, llvm.noalias, llvm.nonnull, llvm.noundef}"


@dataclass(frozen=True)
class ArrayPort:
    """An argument or a result: the element type, the shape, and the indices of the scalar ops of its elements."""

    kind: str
    shape: tuple[int, ...]
    array: ScalarArray

    @property
    def stride(self) -> int:
        """The number of elements from one place of the lane to the next one in memory. 0 if the array has no lane."""
        return 0 if self.array.lane is None else prod(self.shape[self.array.lane + 1 :])

    def offset(self, element: int) -> int:
        """Returns the offset in memory, in elements, of an element at place 0 of the lane.

        `element` is the index of the element in the flattened `ids`.
        """
        lane = self.array.lane
        if lane is None:
            return element
        before, after = divmod(element, self.stride)
        return before * self.stride * self.shape[lane] + after


def _literal(value: np.generic, kind: str) -> str:
    """Returns the MLIR text of a constant, without its type."""
    if kind == "i1":
        return "true" if value else "false"
    if kind not in FLOATS:
        return str(value)
    return f"0x{int.from_bytes(value.tobytes(), 'little'):0{16 if kind == 'f64' else 8}X}"


def _conversion(of: str, to: str) -> str:
    """Returns the name of the op of LLVM's dialect that converts numbers of type `of` to type `to`."""
    grows = int(of[1:]) < int(to[1:])
    if of in FLOATS:
        return "fpext" if grows else "fptrunc"
    if to in FLOATS:
        return "uitofp" if of == "i1" else "sitofp"
    return ("zext" if of == "i1" else "sext") if grows else "trunc"


class ScalarCode:
    """Emits the LLVM function that runs a program of scalar ops for each index (place) of the lane.

    Each vector holds values for `width` consecutive places of the lane. The code is scalar if `width` is 1.
    """

    def __init__(
        self, numbers: ScalarOps, inputs: Sequence[ArrayPort], outputs: Sequence[ArrayPort], width: int
    ) -> None:
        self._numbers, self._inputs, self._outputs, self._width = numbers, inputs, outputs, width
        self._constants: dict[str, str] = {}
        self._lines: list[str] = []
        self._values: dict[int, str] = {}
        self._count = 0

    def function(self, name: str, places: int) -> str:
        """Returns the text of the function, a loop over `places` places of the lane, and of the kernel that calls it.

        If `places` is 1, the function has no loop.
        """
        if places == 1:
            self._body("%zero")
        else:
            last = self._emit(f"llvm.mlir.constant({places} : i64) : i64")
            step = self._emit(f"llvm.mlir.constant({self._width} : i64) : i64")
            self._lines.append("llvm.br ^head(%zero : i64)\n^head(%place: i64):")
            more = self._emit(f'llvm.icmp "slt" %place, {last} : i64')
            self._lines.append(f"llvm.cond_br {more}, ^body, ^end\n^body:")
            self._body("%place")
            following = self._emit(f"llvm.add %place, {step} : i64")
            self._lines.append(f"llvm.br ^head({following} : i64)\n^end:")
        names = [
            *(f"%in{i}" for i in range(len(self._inputs))),
            *(f"%out{i}" for i in range(len(self._outputs))),
        ]
        taken = ", ".join(f"{each}: !llvm.ptr {{llvm.noalias}}" for each in names)
        constants = [f"{value} = llvm.mlir.constant({text}" for text, value in self._constants.items()]
        zero = "%zero = llvm.mlir.constant(0 : i64) : i64"
        body = "\n".join((zero, *constants, *self._lines, "llvm.return"))
        return f"llvm.func internal @{name}_body({taken}) {{\n{body}\n}}\n{self._entry(name, names)}"

    def _entry(self, name: str, names: Sequence[str]) -> str:
        """Returns the text of the kernel, which reads the pointers to the arrays and calls the function."""
        lines = [
            f"%s = llvm.load %state : !llvm.ptr -> {_STATE}",
            f"%b = llvm.extractvalue %s[10] : {_STATE}",
        ]
        for i, each in enumerate(names):
            lines.append(f"%at{i} = llvm.getelementptr %b[{i}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr")
            lines.append(f"{each} = llvm.load %at{i} : !llvm.ptr -> !llvm.ptr")
        types = ", ".join(["!llvm.ptr"] * len(names))
        lines.append(f"llvm.call @{name}_body({', '.join(names)}) : ({types}) -> ()")
        lines.append("%status = llvm.mlir.constant(0 : i32) : i32\nllvm.return %status : i32")
        body = "\n".join(lines)
        given = ", ".join(f"%{each}: !llvm.ptr {_POINTER}" for each in ("environment", "state", "group"))
        return f"llvm.func @{name}_kernel({given}) -> i32 {{\n{body}\n}}"

    # ---- each scalar op is emitted after its operands ----------------------------------------------------------

    def _body(self, place: str) -> None:
        """Emits the scalar ops that the results need, and stores each element of the results."""
        for i, port in enumerate(self._outputs):
            for element, number in enumerate(port.array.ids.ravel().tolist()):
                self._need(number, place)
                self._store(f"%out{i}", port, element, self._values[number], place)

    def _need(self, root: int, place: str) -> None:
        """Emits the scalar op `root`, and before it all ops on which it depends, unless they have been emitted."""
        left = [root]
        while left:
            i = left[-1]
            if i in self._values:
                left.pop()
                continue
            number = self._numbers.all[i]
            needed = (
                []
                if number.name in (CONSTANT, INPUT, ZERO)
                else [x for x in number.operands if x not in self._values]
            )
            if needed:
                left += reversed(needed)
            else:
                self._values[i] = self._number(i, number, place)
                left.pop()

    def _number(self, i: int, number: ScalarOp, place: str) -> str:
        kind = self._kind(number.kind)
        if number.name in (CONSTANT, ZERO):
            return self._constant(i, number)
        if number.name == INPUT:
            which, element = number.operands
            return self._load(f"%in{which}", self._inputs[which], element, place)
        xs = [self._values[x] for x in number.operands]
        own = self._numbers.all[number.operands[-1]].kind
        of, is_float = self._kind(own), own in FLOATS
        if number.name == "convert":
            return self._emit(f"llvm.{_conversion(own, number.kind)} {xs[0]} : {of} to {kind}")
        operator, operands = OPERATORS[number.name], ", ".join(xs)
        op = operator.llvm if is_float else operator.of_integers
        if number.name in COMPARISONS:
            return self._emit(f'llvm.{"f" if is_float else "i"}cmp "{op}" {operands} : {of}')
        if number.name == "select":
            return self._emit(f"llvm.{op} {operands} : {self._kind('i1')}, {kind}")
        if op.startswith("intr."):
            return self._emit(f"llvm.{op}({operands}) : ({', '.join([kind] * len(xs))}) -> {kind}")
        flags = " fastmath<contract>" if len(xs) == 2 and is_float else ""
        return self._emit(f"llvm.{op} {operands}{flags} : {kind}")

    def _kind(self, kind: str) -> str:
        return kind if self._width == 1 else f"vector<{self._width}x{kind}>"

    def _constant(self, i: int, number: ScalarOp) -> str:
        kind = self._kind(number.kind)
        value = self._numbers.value(i)
        assert value is not None, "a constant has a value"
        literal = _literal(value, number.kind)
        if self._width > 1:
            literal = f"dense<{literal}>"
        text = f"{literal}) : i1" if kind == "i1" else f"{literal} : {kind}) : {kind}"
        return self._constants.setdefault(text, f"%c{len(self._constants)}")

    def _emit(self, text: str) -> str:
        self._count += 1
        self._lines.append(f"%v{self._count} = {text}")
        return f"%v{self._count}"

    # ---- elements are loaded from memory and stored in memory --------------------------------------------------

    def _at(self, base: str, port: ArrayPort, element: int, place: str, lane: int = 0) -> str:
        """Emits the address of an element of an argument or result, at the place `lane` places after `place`."""
        offset = port.offset(element) + lane * port.stride
        if not port.stride or place == "%zero":
            return self._emit(
                f"llvm.getelementptr inbounds {base}[{offset}] : (!llvm.ptr) -> !llvm.ptr, {port.kind}"
            )
        scaled = self._scaled(port.stride, place)
        at = self._emit(f"llvm.getelementptr {base}[{scaled}] : (!llvm.ptr, i64) -> !llvm.ptr, {port.kind}")
        return self._emit(f"llvm.getelementptr {at}[{offset}] : (!llvm.ptr) -> !llvm.ptr, {port.kind}")

    def _scaled(self, stride: int, place: str) -> str:
        by = self._constants.setdefault(f"{stride} : i64) : i64", f"%c{len(self._constants)}")
        return self._emit(f"llvm.mul {place}, {by} : i64")

    def _load(self, base: str, port: ArrayPort, element: int, place: str) -> str:
        size = int(port.kind[1:]) // 8
        if self._width == 1 or (port.stride == 1 and place != "%zero"):
            at = self._at(base, port, element, place)
            return self._emit(f"llvm.load {at} <alignment = {size}> : !llvm.ptr -> {self._kind(port.kind)}")
        value, kind = self._emit(f"llvm.mlir.poison : {self._kind(port.kind)}"), self._kind(port.kind)
        lanes = [
            self._at(base, port, element, place, lane) for lane in range(self._width if port.stride else 1)
        ]
        for lane in range(self._width):
            one = self._emit(f"llvm.load {lanes[lane % len(lanes)]} : !llvm.ptr -> {port.kind}")
            value = self._emit(f"llvm.insertelement {one}, {value}[{self._number_of(lane)} : i64] : {kind}")
        return value

    def _store(self, base: str, port: ArrayPort, element: int, value: str, place: str) -> None:
        size, kind = int(port.kind[1:]) // 8, self._kind(port.kind)
        if self._width == 1 or port.stride == 1:
            at = self._at(base, port, element, place)
            self._lines.append(f"llvm.store {value}, {at} <alignment = {size}> : {kind}, !llvm.ptr")
            return
        for lane in range(self._width):
            one = self._emit(f"llvm.extractelement {value}[{self._number_of(lane)} : i64] : {kind}")
            at = self._at(base, port, element, place, lane)
            self._lines.append(f"llvm.store {one}, {at} : {port.kind}, !llvm.ptr")

    def _number_of(self, lane: int) -> str:
        return self._constants.setdefault(f"{lane} : i64) : i64", f"%c{len(self._constants)}")
