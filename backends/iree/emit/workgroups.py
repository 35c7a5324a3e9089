"""`Code` and `in_workgroups`: a dispatch written with vectors, and divided into workgroups, which IREE's threads run.

    %0 = flow.dispatch @name::@name(%x)
    flow.executable @name {
      func.func @name(%x, %out) { %i = flow.dispatch.workgroup.id[0]; call @name_workgroup(%x, %out, %i) }
      func.func private @name_workgroup(%x, %out, %i) { ... }
    }

The code of a workgroup is a separate function. While IREE's compiler schedules the dispatches, the function is only
declared (`declare_workgroup`), because these phases do not need its body. IREE inlines the function later. The ops of
the dialect `flow` are emitted in generic form, because the MLIR bindings do not define the dialect.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import EXECUTABLE, Emitter, module_of, signless
from tiduc.backends.iree.emit.kernels import Kernel
from tiduc.backends.iree.emit.sizes import RunTimeSize, SizeLike, read
from tiduc.backends.iree.emit.vectors import Vectors
from tiduc.dialect.graph.functions import symbol
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.mlir.context import context
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element, with_shape

T = TypeVar("T")

_TENSOR = "iree_tensor_ext.dispatch.tensor"
DISPATCH = "flow.dispatch"
"""The op that runs the code of an executable: it reads arrays and computes an array."""

_WORKGROUP = "_workgroup"
"""The suffix of the name of a workgroup's function."""

_PLACE = "location of a tiduc kernel"
"""The name that stands for the location of a workgroup's function while the function is printed."""

_MOST = 2**31
"""All numbers that the code reads at run time must be less than this, because they are 32-bit integers."""


class ArrayPart(NamedTuple):
    """A slice of an array that a workgroup computes: its value, its start indices, and its sizes.

    The value may have fewer dimensions than the array, if the missing ones have size 1.
    """

    value: IrValue
    starts: Sequence[SizeLike]
    sizes: Sequence[SizeLike]


@dataclass(frozen=True)
class SharedNumbers:
    """Numbers that a dispatch's code reads at run time. Dispatches that differ only in these numbers share the code.

    `sizes` has an entry for each input and for the result. The entry lists, for each dynamic dimension d, the pair (d,
    i) such that `numbers[i]` is the size of d. `known` has the indices of the numbers that are constants in the code.
    """

    numbers: tuple[int, ...]
    sizes: tuple[tuple[tuple[int, int], ...], ...]
    known: frozenset[int] = frozenset()

    @staticmethod
    def named(numbers: NamedTuple, ones: Sequence[str], *dimensions: Sequence[str | None]) -> "SharedNumbers":
        """Creates the record from a named tuple of numbers.

        `dimensions` has a sequence for each input and for the result. It has an entry for each dimension: the name of
        the number that is the size of the dimension, or None if the size is constant. A number named in `ones` becomes
        a constant of the code if it is 1, because a size of 1 needs no loop. Numbers of `_MOST` and more also become
        constants.
        """
        at = {name: i for i, name in enumerate(numbers._fields)}
        sizes = tuple(
            tuple((d, at[name]) for d, name in enumerate(names) if name is not None) for names in dimensions
        )
        known = [i for name, i in at.items() if (name in ones and numbers[i] == 1) or numbers[i] >= _MOST]
        return SharedNumbers(tuple(numbers), sizes, frozenset(known))

    @property
    def read(self) -> list[int]:
        """The numbers that the code reads at run time, because they are not constants of the code."""
        return [n for i, n in enumerate(self.numbers) if i not in self.known]

    @property
    def fixed(self) -> list[tuple[int, int]]:
        """The pairs (index, number) of the numbers that are constants of the code."""
        return [(i, self.numbers[i]) for i in sorted(self.known)]

    def types(self, types: Sequence[ir.RankedTensorType]) -> list[ir.RankedTensorType]:
        """The types of the inputs and the result as the code sees them: sizes that it reads at run time are dynamic."""
        unknown = ir.ShapedType.get_dynamic_size()
        dynamic = [{d for d, i in sizes if i not in self.known} for sizes in self.sizes]
        return [
            with_shape(type_, [unknown if d in those else n for d, n in enumerate(type_.shape)])
            for type_, those in zip(types, dynamic, strict=True)
        ]

    def all(self, read: Sequence[T]) -> list[int | T]:
        """All numbers, in order: constants as integers, and the others from `read`, which has their run-time values."""
        values = iter(read)
        return [n if i in self.known else next(values) for i, n in enumerate(self.numbers)]

    def dynamic(self, read: Sequence[IrValue]) -> list[list[IrValue]]:
        """For each array, the sizes of its dynamic dimensions. `read` has the numbers that are read at run time."""
        numbers = dict(zip((i for i in range(len(self.numbers)) if i not in self.known), read, strict=True))
        return [[numbers[i] for _, i in sizes if i in numbers] for sizes in self.sizes]


Body = Callable[[Vectors, Sequence[RunTimeSize], Sequence[IrValue], Sequence[SizeLike]], ArrayPart]


class EmitsPart(Protocol):
    """Emits the code that computes one part of an array. The workgroups of a dispatch compute one part each."""

    def one(self, k: Vectors, place: Sequence[RunTimeSize]) -> ArrayPart:
        """Emits the code for one part. `place` has the indices of the workgroup, which are also those of the part."""


@dataclass(frozen=True)
class Code:
    """The code of a dispatch that computes an array in parts, and the numbers that the code reads at run time.

    `form` has all properties that determine the code, such as the tile of sums in registers, except the types of the
    arrays. Dispatches of equal forms and types share code. `part(form, numbers, *arrays)` returns the emitter of parts.
    `numbers` is a named tuple of the numbers that the code reads; `ones` and `axes` are arguments of
    `SharedNumbers.named`. If `numbers` is None, all sizes are constants of the code.
    """

    name: str
    form: object
    part: Callable[..., EmitsPart]
    numbers: "NamedTuple | None" = None
    ones: Sequence[str] = ()
    axes: Sequence[Sequence[str | None]] = ()

    def run(
        self, b: Emitter, arrays: Sequence[IrValue], type_: ir.RankedTensorType, counts: Sequence[int]
    ) -> IrValue:
        """Emits the dispatch and returns its result, of type `type_`. `counts[d]` parts lie along dimension d."""

        def fill(
            k: Vectors, place: Sequence[RunTimeSize], inputs: Sequence[IrValue], read: Sequence[SizeLike]
        ) -> ArrayPart:
            numbers = self.numbers._make(read) if self.numbers is not None and read else None
            return self.part(self.form, numbers, *inputs).one(k, place)

        shared = None if self.numbers is None else SharedNumbers.named(self.numbers, self.ones, *self.axes)
        return in_workgroups(b, self.name, self.form, arrays, type_, counts, fill, shared)


def in_workgroups(
    b: Emitter,
    name: str,
    plan: object,
    inputs: Sequence[IrValue],
    type_: ir.RankedTensorType,
    counts: Sequence[int],
    fill: Body,
    shared: SharedNumbers | None = None,
) -> IrValue:
    """Emits a dispatch in which each workgroup computes one part of an array, and returns the array.

    `fill(kernel, place, inputs, numbers)` emits the code of a workgroup and returns its part; `place` has the indices
    of the workgroup.

    - `counts`: the numbers of workgroups along at most three dimensions. A thread runs workgroups that are adjacent
      along the last dimension one after the other.
    - `plan`: dispatches with equal names, plans and types share their code, which is emitted once, at the module's end.
      The ops that `fill` emits must therefore depend only on the plan and the types.
    - `shared`: if it is given, neither the code nor its types depend on `counts` or on the numbers that the code reads
      at run time. `fill` receives all numbers of `shared`.
    """
    context().allow_unregistered_dialects = True  # not reset later, since other code copies and prints the op
    module = module_of(b)
    types = [*(x.type for x in inputs), type_]
    workload, numbers = [], []
    if shared is not None:
        types = shared.types(types)
        k = Kernel(b.place, b.location)
        workload = [k.index(n) for n in _three(counts)]
        numbers = [k.number(n, signless(32)) for n in shared.read]
    of = (*types, shared.sizes, len(numbers), shared.fixed) if shared else (*types, *counts)
    key = hashlib.blake2b(repr((plan, *map(str, of))).encode(), digest_size=8).hexdigest()
    name = "_".join((name, *("x".join(map(str, (*_known(t), element(t)))) for t in types[:-1]), key))
    block = module.regions[0].blocks[0]
    if all(symbol(op) != name for op in operations(block) if op.name == EXECUTABLE):
        _executable(
            Kernel(ir.InsertionPoint(block), b.location, b.settings), name, types, counts, fill, shared
        )
    attributes = {
        "entry_points": ir.ArrayAttr.get([ir.SymbolRefAttr.get([name, name])]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(workload), len(inputs) + len(numbers), 0, 0]),
    }
    return b.emit(DISPATCH, [*workload, *inputs, *numbers], type_, attributes)


def _three(counts: Sequence[int]) -> list[int]:
    """The numbers of workgroups along IREE's three dimensions, the innermost dimension first."""
    return [*reversed(counts), 1, 1][:3]


def _known(type_: ir.RankedTensorType) -> list[int | str]:
    """The sizes of an array for the name of an executable, with "n" for each dynamic size."""
    return [n if n >= 0 else "n" for n in type_.shape]


def detached(module: IrOp) -> list[ir.Operation]:
    """Detaches the executables, which hold the code of dispatches, from a module. Returns them in order."""
    code = [op for op in operations(module.operation.regions[0].blocks[0]) if op.name == EXECUTABLE]
    for op in code:
        op.detach_from_parent()
    return code


def declare_workgroup(code: IrOp) -> tuple[str, str]:
    """Replaces the workgroup's function in an executable by a declaration. Returns the function's name and text."""
    (inner,) = (op for op in operations(code.regions[0].blocks[0]) if op.name == "builtin.module")
    _, function = operations(inner.regions[0].blocks[0])
    location = function.location
    _relocate(function, location, ir.Location.name(_PLACE))
    # With local scope, the text has no aliases such as `#loc1`, whose definitions would be outside of the text.
    text = str(function.get_asm(enable_debug_info=True, use_local_scope=True, assume_verified=True))
    text = text.replace(f'loc("{_PLACE}")', str(location))
    name = symbol(function)
    attributes = {each: function.attributes[each] for each in function.attributes}
    place = ir.InsertionPoint(function)
    ir.Operation.create("func.func", attributes=attributes, regions=1, loc=location, ip=place)
    function.erase()
    return name, text


def _relocate(function: IrOp, old: ir.Location, new: ir.Location) -> None:
    """Replaces the location `old` of the function, and of all ops and block arguments in it, by `new`.

    MLIR prints the location of each op. The location of a kernel is often a chain of calls of several hundred
    characters, which takes several times as long to print as the op.
    """

    def visit(op: IrOp) -> ir.WalkResult:
        if op.location == old:
            op.operation.location = new
        for region in op.operation.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    if argument.location == old:
                        argument.set_location(new)
        return ir.WalkResult.ADVANCE

    function.operation.walk(visit)


def _executable(
    b: Kernel,
    name: str,
    types: Sequence[ir.RankedTensorType],
    counts: Sequence[int],
    fill: Body,
    shared: SharedNumbers | None,
) -> None:
    """Emits an executable with the code of a dispatch, in the form in which IREE forms its own executables."""
    bound = [_bound("readonly", each) for each in types[:-1]] + [_bound("writeonly", types[-1])]
    by_size = shared is not None
    shared = shared or SharedNumbers((), ((),) * len(types))
    words = [signless(32)] * len(shared.read)
    takes = _Takes(types, shared, len(counts))
    arguments = [*bound[:-1], *words, bound[-1]]
    passed = [*bound, *[ir.IndexType.get()] * (len(words) + len(counts))]
    symbol = {"sym_name": ir.StringAttr.get(name)}
    export = {**symbol, "function_ref": ir.FlatSymbolRefAttr.get(name)}
    private = {"sym_visibility": ir.StringAttr.get("private")}
    called = name + _WORKGROUP

    def block(region: ir.Region, of: Sequence[ir.Type]) -> tuple[Vectors, list[IrValue]]:
        block = region.blocks.append(*of, arg_locs=[b.location] * len(of))
        return Vectors(block, b.location, element(types[-1]), b.settings), list(block.arguments)

    def filled(region: ir.Region) -> None:
        k = b.at(ir.InsertionPoint(region.blocks.append()))
        if not by_size:
            count = k.region((), lambda k: [k.index(n) for n in _three(counts)], "flow.return")
        else:
            count = k.region([ir.IndexType.get()] * 3, lambda k, *given: given, "flow.return")
        k.emit_all("flow.executable.export", (), (), export, [count])
        k.emit_all("builtin.module", (), (), None, [functions])
        k.emit_all("flow.executable_end", (), ())

    def functions(region: ir.Region) -> None:
        k = b.at(ir.InsertionPoint(region.blocks.append()))
        entry, workgroup = _function(name, arguments), {**_function(called, passed), **private}
        k.emit_all(
            "func.func", (), (), entry, [lambda region: _enter(*block(region, arguments), takes, called)]
        )
        k.emit_all(
            "func.func", (), (), workgroup, [lambda region: _compute(*block(region, passed), takes, fill)]
        )

    b.emit_all(EXECUTABLE, (), (), {**symbol, **private}, [filled])


class _Takes(NamedTuple):
    """Describes the arguments of a dispatch's code: arrays of these types, numbers, and indices of the workgroup."""

    types: Sequence[ir.RankedTensorType]  # the last type is that of the result
    shared: SharedNumbers
    dimensions: int  # the number of indices of a workgroup


def _enter(k: Vectors, given: Sequence[IrValue], takes: _Takes, called: str) -> None:
    """Emits the body of the function that a dispatch runs. The body calls the workgroup's function, `called`."""
    *inputs, out = *given[: len(takes.types) - 1], given[-1]
    numbers = [k.cast(n, ir.IndexType.get()) for n in given[len(inputs) : -1]]
    arrays = [
        _sized(k, x, each) for x, each in zip((*inputs, out), takes.shared.dynamic(numbers), strict=True)
    ]
    place = [
        k.emit("flow.dispatch.workgroup.id", (), ir.IndexType.get(), {"dimension": _index(d)})
        for d in reversed(range(takes.dimensions))
    ]
    k.emit_all("func.call", (*arrays, *numbers, *place), (), {"callee": ir.FlatSymbolRefAttr.get(called)})
    k.emit_all("func.return", (), ())


def _compute(k: Vectors, given: Sequence[IrValue], takes: _Takes, fill: Body) -> None:
    """Emits the body of the workgroup's function, which loads the inputs and stores one part of the result."""
    count = len(takes.types)
    *inputs, out = given[:count]
    end = count + len(takes.shared.read)
    numbers, place = given[count:end], given[end:]
    known = takes.shared.dynamic(numbers)
    loaded = [
        k.emit(f"{_TENSOR}.load", (y, *each, *each), type_, _slice(*_whole(type_), [1, len(each)]))
        for type_, y, each in zip(takes.types, inputs, known, strict=False)
    ]
    part = fill(k, [read(i) for i in place], loaded, takes.shared.all([read(n) for n in numbers]))
    at = [*k.dynamic(part.starts), *k.dynamic(part.sizes)]
    segments = [1, 1, len(known[-1])]
    operands = part.value, out, *known[-1], *at
    k.emit_all(f"{_TENSOR}.store", operands, (), _slice(part.starts, part.sizes, segments))
    k.emit_all("func.return", (), ())


def _function(name: str, arguments: Sequence[ir.Type]) -> dict[str, ir.Attribute]:
    """The attributes of a function without results."""
    type_ = ir.TypeAttr.get(ir.FunctionType.get(list(arguments), []))
    return {"sym_name": ir.StringAttr.get(name), "function_type": type_}


def _sized(k: Kernel, x: IrValue, sizes: Sequence[IrValue]) -> IrValue:
    """Tells IREE the sizes of the dynamic dimensions of x, an argument of a dispatch. Returns the new value of x."""
    return k.emit("flow.dispatch.tie_shape", (x, *sizes), x.type) if sizes else x


def _whole(type_: ir.RankedTensorType) -> tuple[list[int], list[int | None]]:
    """The starts and sizes of the slice that is a whole array, with None for each dynamic size."""
    return [0] * len(type_.shape), [n if n >= 0 else None for n in type_.shape]


def _bound(access: str, type_: ir.RankedTensorType) -> ir.Type:
    """The type of an array as an argument of a dispatch."""
    return ir.Type.parse(f"!{_TENSOR}<{access}:{type_}>")


def _index(n: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IndexType.get(), n)


def _slice(
    starts: Sequence[SizeLike], sizes: Sequence[SizeLike | None], arrays: Sequence[int]
) -> dict[str, ir.Attribute]:
    """The attributes of an op on a slice. `arrays` has the lengths of the operand segments that precede the starts."""

    def static(numbers: Sequence[SizeLike | None]) -> ir.DenseI64ArrayAttr:
        unknown = ir.ShapedType.get_dynamic_size()
        return ir.DenseI64ArrayAttr.get([n if isinstance(n, int) else unknown for n in numbers])

    counts = [*arrays, *(sum(not isinstance(n, int) for n in numbers) for numbers in (starts, sizes)), 0]
    return {
        "static_offsets": static(starts),
        "static_sizes": static(sizes),
        "static_strides": ir.DenseI64ArrayAttr.get([1] * len(starts)),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get(counts),
    }
