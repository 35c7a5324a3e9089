"""Writes scalar ops as one function of LLVM's dialect, whose values are scalars, or vectors of a lane's places."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tiduc.backends.iree.static.scalars.arrays import ScalarArray
from tiduc.backends.iree.static.scalars.numbers import (
    BASIS,
    COMPARISONS,
    CONSTANT,
    FLOATS,
    INPUT,
    OPERATORS,
    ZERO,
    ScalarOp,
    ScalarOps,
)

_KEPT_BYTES = 8


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


def _kept_kind(kind: str) -> str:
    """The type of a number in the memory for kept numbers. The sign bit of an integer of 64 bits is a truth value."""
    return "i64" if kind == "i1" else kind


class FunctionCode:
    """Emits a function that computes scalar ops and stores results.

    Each value is a vector for `width` places of the lane from `%place` on. The values are scalars if `width` is 1. The
    function loads the ops in `kept` from the memory `%kept`, at the offsets in `kept`, in units of 8 bytes.
    """

    def __init__(
        self,
        numbers: ScalarOps,
        inputs: Sequence[ArrayPort],
        width: int = 1,
        kept: Mapping[int, int] | None = None,
    ) -> None:
        self._numbers, self._inputs, self._width = numbers, inputs, width
        self._kept = kept or {}
        self._constants: dict[str, str] = {}
        self._places: dict[str, str] = {}
        self._lines: list[str] = []
        self._values: dict[int, str] = {}
        self._count = 0

    def text(self, name: str, arguments: Sequence[str]) -> str:
        """Returns the text of the function. The argument `%place` is an integer, all others are pointers."""
        taken = ", ".join(
            f"{each}: i64" if each == "%place" else f"{each}: !llvm.ptr {{llvm.noalias}}"
            for each in arguments
        )
        constants = [f"{value} = llvm.mlir.constant({text}" for text, value in self._constants.items()]
        body = "\n".join((*constants, *self._lines, "llvm.return"))
        apart = ' attributes {passthrough = ["noinline"]}' if "%kept" in arguments else ""
        return f"llvm.func internal @{name}({taken}){apart} {{\n{body}\n}}\n"

    def store_results(self, outputs: Sequence[ArrayPort | None]) -> None:
        """Emits the scalar ops that the results need, and stores each element of the results. Omits None."""
        for i, port in enumerate(outputs):
            for element, number in enumerate([] if port is None else port.array.ids.ravel().tolist()):
                assert port is not None
                self._need(number)
                self._store(f"%out{i}", port, element, self._values[number])

    def keep(self, kept: Sequence[int]) -> dict[int, int]:
        """Stores the results of scalar ops in the memory `%kept`. Returns their offsets, in units of 8 bytes."""
        for offset, i in enumerate(kept):
            self._need(i)
            kind, value = self._numbers.all[i].kind, self._values[i]
            if kind == "i1":
                value = self._emit(f"llvm.sext {value} : i1 to i64")
            at = self._emit(f"llvm.getelementptr inbounds %kept[{offset}] : (!llvm.ptr) -> !llvm.ptr, i64")
            self._lines.append(
                f"llvm.store {value}, {at} <alignment = {_KEPT_BYTES}> : {_kept_kind(kind)}, !llvm.ptr"
            )
        return {i: offset for offset, i in enumerate(kept)}

    # ---- each scalar op is emitted after its operands ----------------------------------------------------------

    def _need(self, root: int) -> None:
        """Emits the scalar op `root`, and before it all ops on which it depends, unless they have been emitted."""
        left = [root]
        while left:
            i = left[-1]
            if i in self._values:
                left.pop()
                continue
            needed = [x for x in self._numbers.operands(i) if x not in self._values]
            if needed and i not in self._kept:
                left += reversed(needed)
            else:
                self._values[i] = self._number(i, self._numbers.all[i])
                left.pop()

    def _number(self, i: int, number: ScalarOp) -> str:
        kind = self._kind(number.kind)
        if i in self._kept:
            return self._load_kept(number.kind, self._kept[i])
        if number.name in (CONSTANT, ZERO):
            value = self._numbers.value(i)
            assert value is not None, "a constant has a value"
            return self._constant(_literal(value, number.kind), number.kind)
        if number.name == INPUT:
            which, element = number.operands
            return self._load(f"%in{which}", self._inputs[which], element)
        if number.name == BASIS:
            return self._basis(number)
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

    def _constant(self, literal: str, kind: str) -> str:
        """Returns a constant. All elements of a vector are equal."""
        type_ = self._kind(kind)
        if self._width > 1:
            literal = f"dense<{literal}>"
        text = f"{literal}) : i1" if type_ == "i1" else f"{literal} : {type_}) : {type_}"
        return self._constants.setdefault(text, f"%c{len(self._constants)}")

    def _basis(self, number: ScalarOp) -> str:
        """Returns 1 at one place and 0 at the others."""
        kind = self._kind(number.kind)
        wide = self._kind("i64")
        if wide not in self._places:
            places = self._splat("%place", "i64")
            if self._width > 1:
                each = ", ".join(map(str, range(self._width)))
                offsets = self._constants.setdefault(
                    f"dense<[{each}]> : {wide}) : {wide}", f"%c{len(self._constants)}"
                )
                places = self._emit(f"llvm.add {places}, {offsets} : {wide}")
            self._places[wide] = places
        at = self._constant(str(number.operands[0]), "i64")
        flag = self._emit(f'llvm.icmp "eq" {self._places[wide]}, {at} : {wide}')
        one, zero = (self._constant(f"{x:.1f}", number.kind) for x in (1, 0))
        return self._emit(f"llvm.select {flag}, {one}, {zero} : {self._kind('i1')}, {kind}")

    def _splat(self, value: str, kind: str) -> str:
        """Returns a vector whose elements are the scalar `value`."""
        if self._width == 1:
            return value
        type_ = self._kind(kind)
        none = self._emit(f"llvm.mlir.poison : {type_}")
        first = self._emit(f"llvm.insertelement {value}, {none}[{self._number_of(0)} : i64] : {type_}")
        zeros = ", ".join(["0"] * self._width)
        return self._emit(f"llvm.shufflevector {first}, {none} [{zeros}] : {type_}")

    def _emit(self, text: str) -> str:
        self._count += 1
        self._lines.append(f"%v{self._count} = {text}")
        return f"%v{self._count}"

    # ---- elements are loaded from memory and stored in memory --------------------------------------------------

    def _load_kept(self, kind: str, offset: int) -> str:
        own = _kept_kind(kind)
        at = self._emit(f"llvm.getelementptr inbounds %kept[{offset}] : (!llvm.ptr) -> !llvm.ptr, i64")
        one = self._emit(f"llvm.load {at} <alignment = {_KEPT_BYTES}> : !llvm.ptr -> {own}")
        found = self._splat(one, own)
        if kind != "i1":
            return found
        return self._emit(f'llvm.icmp "slt" {found}, {self._constant("0", own)} : {self._kind(own)}')

    def _at(self, base: str, port: ArrayPort, element: int, lane: int = 0) -> str:
        """Emits the address of an element of an argument or result, at the place `lane` places after `%place`."""
        offset = port.offset(element) + lane * port.stride
        if not port.stride:
            return self._emit(
                f"llvm.getelementptr inbounds {base}[{offset}] : (!llvm.ptr) -> !llvm.ptr, {port.kind}"
            )
        scaled = self._scaled(port.stride)
        at = self._emit(f"llvm.getelementptr {base}[{scaled}] : (!llvm.ptr, i64) -> !llvm.ptr, {port.kind}")
        return self._emit(f"llvm.getelementptr {at}[{offset}] : (!llvm.ptr) -> !llvm.ptr, {port.kind}")

    def _scaled(self, stride: int) -> str:
        by = self._number_of(stride)
        return self._emit(f"llvm.mul %place, {by} : i64")

    def _load(self, base: str, port: ArrayPort, element: int) -> str:
        size, kind = int(port.kind[1:]) // 8, self._kind(port.kind)
        if self._width == 1 or port.stride < 2:
            at = self._at(base, port, element)
            of = kind if port.stride else port.kind
            one = self._emit(f"llvm.load {at} <alignment = {size}> : !llvm.ptr -> {of}")
            return one if port.stride else self._splat(one, port.kind)
        value = self._emit(f"llvm.mlir.poison : {kind}")
        for lane in range(self._width):
            at = self._at(base, port, element, lane)
            one = self._emit(f"llvm.load {at} <alignment = {size}> : !llvm.ptr -> {port.kind}")
            value = self._emit(f"llvm.insertelement {one}, {value}[{self._number_of(lane)} : i64] : {kind}")
        return value

    def _store(self, base: str, port: ArrayPort, element: int, value: str) -> None:
        size, kind = int(port.kind[1:]) // 8, self._kind(port.kind)
        if self._width == 1 or port.stride == 1:
            at = self._at(base, port, element)
            self._lines.append(f"llvm.store {value}, {at} <alignment = {size}> : {kind}, !llvm.ptr")
            return
        for lane in range(self._width):
            one = self._emit(f"llvm.extractelement {value}[{self._number_of(lane)} : i64] : {kind}")
            at = self._at(base, port, element, lane)
            self._lines.append(f"llvm.store {one}, {at} : {port.kind}, !llvm.ptr")

    def _number_of(self, value: int) -> str:
        return self._constants.setdefault(f"{value} : i64) : i64", f"%c{len(self._constants)}")
