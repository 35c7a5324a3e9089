"""Translates the host code of a program to C, from IREE's IR after the phase `executable-targets`.

    %t = stream.cmd.execute with(%x as %a, %r as %b) {       status = tiduc_dispatch(3, ...);
      stream.cmd.dispatch @kernel { ro %a, wo %b }      ->   if (status) goto end;
    }

After this phase, all kernels are compiled and the numbers of their workgroups are known, but the host code is not yet
specific to a runtime. It allocates, fills and copies buffers and calls kernels. The C code runs these ops in order, on
one thread, so that it needs no synchronization (`!stream.timepoint`). In place of each op that frees a buffer, the C
code frees all memory that is not live, because IREE's op may free memory that another loop-carried value still uses.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf

from iree.compiler import ir

from tiduc.backends.iree.compile import located
from tiduc.backends.iree.modules.ops import IrValue
from tiduc.backends.iree.static.arithmetic import expression
from tiduc.backends.iree.static.constants import data_of
from tiduc.backends.iree.static.kernels import local_memory
from tiduc.backends.iree.static.liveness import (
    FREE,
    has_loop,
    is_buffer,
    is_mapped,
    is_time,
    live_after,
    live_at_entry,
    reachable,
)
from tiduc.dialect.errors import CompileError

TYPES = {f"i{n}": f"int{n}_t" for n in (8, 16, 32, 64)}
TYPES |= {"i1": "bool", "index": "int64_t", "f32": "float", "f64": "double"}
"""Maps MLIR's types of scalars to C types."""

_OVERHEAD = 32 + 64
"""The most bytes that an allocation takes beyond its data, for the allocator's record and for alignment."""

_VARIABLE = re.compile(r"\bv\d+\b")
_IGNORED = (
    "hal.buffer_view.assert hal.element_type hal.encoding_type stream.cmd.discard stream.cmd.flush "
    "stream.cmd.invalidate stream.timepoint.barrier stream.timepoint.immediate stream.timepoint.join stream.yield "
    "stream.timepoint.chain_external"
).split()


@dataclass
class Host:
    """The state that the translations of all functions of a module share. `name` is for diagnostics.

    `exports` maps each kernel to its op `hal.executable.export`, and `called` maps each called kernel to its index in
    the C table of kernels. `constants` collects the bytes of constant buffers. With `rehearses`, the translation only
    finds unsupported ops.
    """

    name: str
    exports: dict[str, ir.Operation]
    called: dict[str, int] = field(default_factory=dict)
    constants: list[bytes] = field(default_factory=list)
    resources: Mapping[str, bytes] | None = None
    rehearses: bool = False

    def index_of(self, kernel: str) -> int:
        """Returns the index of a kernel in the C table of kernels. Adds the kernel if the table lacks it."""
        return self.called.setdefault(kernel, len(self.called))

    def refuse(self, what: str, op: ir.Operation | None = None) -> CompileError:
        """Returns the error for host code that cannot be translated, located at `op` if `op` has a location."""
        place = "" if op is None else located(str(op.location), "")
        return CompileError(f"static libraries: {what} on the host is not supported", place or self.name)


class CFunction:
    """Translates one function of the module to C: the declarations of variables, and the statements."""

    def __init__(self, host: Host, donated: Collection[int] = ()) -> None:
        """`donated` are the indices of the results that are written into the memory of an argument."""
        self.host, self.donated = host, donated
        self.names: dict[IrValue, str] = {}
        self.declared: list[str] = []
        self.lines: list[str] = []
        self.allocated: list[str] = []  # C expressions of the sizes that a call may allocate
        self._labels: dict[ir.Block, str] = {}
        self._live: dict[ir.Block, set[IrValue]] = {}

    # ---- values become C variables ---------------------------------------------------------------------------

    def use(self, value: IrValue) -> str:
        """The C expression of a value."""
        return self.names[value]

    def define(self, value: IrValue, text: str | None = None) -> str:
        """Declares a C variable for a value, set to the expression `text` if given. Returns the variable's name."""
        kind = self.c_type(value.type)
        name = self.names[value] = f"v{len(self.declared)}"
        self.declared.append(f"{kind} {name};")
        if text is not None:
            self.lines.append(f"{name} = {text};")
        return name

    def c_type(self, type: ir.Type) -> str:
        text = str(type)
        if is_buffer(type):
            return "tiduc_buffer"
        if text not in TYPES:
            raise self.host.refuse(f"a value of type {text}")
        return TYPES[text]

    def alias(self, value: IrValue, other: IrValue) -> None:
        self.names[value] = self.names[other]

    def heap(self) -> float:
        """The most bytes that a call takes from malloc. Infinite if there are loops or sizes that are not constant."""
        sizes = [int(size) if size.isdecimal() else inf for size in self.allocated]
        return inf if has_loop(list(self._labels)) else sum(size + _OVERHEAD for size in sizes)

    def code(self) -> list[str]:
        """The C declarations and statements, without variables that are never read."""
        lines, unread = self.lines, {""}
        while unread:
            read = Counter(_VARIABLE.findall("\n".join(lines)))
            unread = {f"{name} = " for name, count in read.items() if count == 1}
            kept = [line for line in lines if line[: line.find("=") + 2] not in unread]
            unread = set() if len(kept) == len(lines) else unread
            lines = kept
        return [line for line in self.declared if line[:-1].rpartition(" ")[2] in read] + lines

    # ---- blocks and ops become C statements ------------------------------------------------------------------

    def body(self, region: ir.Region) -> None:
        """Translates the blocks of a function's region to statements."""
        blocks = reachable(list(region.blocks))
        self._labels = {block: f"b{i}" for i, block in enumerate(blocks)}
        self._live = live_at_entry(blocks)
        for block in blocks[1:]:
            for argument in block.arguments:
                if not is_time(argument.type):
                    self.define(argument)
        for i, block in enumerate(blocks):
            if i:
                scalars = (
                    self.names[a] for a in block.arguments if a in self.names and not is_buffer(a.type)
                )
                self.lines.append(f"{self._labels[block]}:;{''.join(f' (void){name};' for name in scalars)}")
                self.collect(self._live[block] | {a for a in block.arguments if is_buffer(a.type)})
            self._block(block)

    def _block(self, block: ir.Block) -> None:
        operations = [o.operation for o in block.operations]
        after = live_after(operations, self._live) if any(o.name == FREE for o in operations) else None
        for i, op in enumerate(operations):
            if op.name == FREE:
                assert after is not None
                self.collect(after[i])
            else:
                self.emit(op)

    def collect(self, live: set[IrValue]) -> None:
        """Emits a call that frees all memory of the pool except the memory of live buffers."""
        kept = sorted({self.names[value] for value in live if value in self.names})
        line = f"tiduc_collect(pool, {_array(kept)}, {len(kept)});"
        if not self.lines or self.lines[-1] != line:
            self.lines.append(line)

    def emit(self, op: ir.Operation) -> None:
        """Translates one op. Raises `CompileError` if the op is not supported."""
        translate = _TRANSLATE.get(op.name)
        if translate is not None:
            translate(self, op)
        elif op.name in _IGNORED:
            return
        elif op.name == "arith.constant" and (text := expression(op, self.use)) is not None:
            self.names[op.results[0]] = text
        elif len(op.results) == 1 and (text := expression(op, self.use)) is not None:
            self.define(op.results[0], text)
        else:
            raise self.host.refuse(op.name, op)

    def jump(self, block: ir.Block, operands: Sequence[IrValue]) -> str:
        """Returns C code that assigns the operands to all arguments of a block at once, and jumps to the block."""
        pairs = [
            (self.names[to], self.use(of), self.c_type(to.type))
            for to, of in zip(block.arguments, operands, strict=True)
            if not is_time(to.type)
        ]
        pairs = [pair for pair in pairs if pair[0] != pair[1]]
        reads = "".join(f"{kind} n{i} = {of}; " for i, (_, of, kind) in enumerate(pairs))
        writes = "".join(f"{to} = n{i}; " for i, (to, _, _) in enumerate(pairs))
        return f"{{ {reads}{writes}goto {self._labels[block]}; }}"

    def checked(self, call: str) -> None:
        self.lines.append(f"if ((status = {call}) != 0) goto end;")


def _array(buffers: Sequence[str]) -> str:
    return f"(const tiduc_buffer[]){{{', '.join(buffers)}}}" if buffers else "NULL"


# ---- each of these functions translates one kind of op ---------------------------------------------------------


def segments(op: ir.Operation) -> list[list[IrValue]]:
    """Returns the operands of an op as lists, whose lengths are the op's attribute `operandSegmentSizes`."""
    operands, parts = list(op.operands), []
    for size in op.attributes["operandSegmentSizes"]:
        parts.append(operands[:size])
        operands = operands[size:]
    return parts


def _alloca(f: CFunction, op: ir.Operation) -> None:
    buffer, size = f.define(op.results[0]), f.use(list(op.operands)[0])
    f.allocated.append(size)
    f.checked(f"tiduc_allocate(pool, {size}, &{buffer})")


def _import(f: CFunction, op: ir.Operation) -> None:
    buffer, size = f.define(op.results[0]), f.use(op.operands[-1])
    f.allocated.append(size)
    f.checked(f"tiduc_aligned(pool, {f.use(op.operands[0])}.data, {size}, &{buffer})")


def _export(f: CFunction, op: ir.Operation) -> None:
    f.define(op.results[0], f"(tiduc_buffer){{{f.use(op.operands[0])}.data, {f.use(op.operands[-1])}}}")


def _subview(f: CFunction, op: ir.Operation) -> None:
    source, _, offset, size = (f.use(value) for value in op.operands)
    f.define(op.results[0], f"(tiduc_buffer){{{source}.data + {offset}, {size}}}")


def _await(f: CFunction, op: ir.Operation) -> None:
    for result, operand in zip(op.results, segments(op)[0], strict=True):
        f.alias(result, operand)


def _barrier(f: CFunction, op: ir.Operation) -> None:
    for result, operand in zip(op.results, op.operands, strict=True):
        f.alias(result, operand)


def _load(f: CFunction, op: ir.Operation) -> None:
    source, _, offset = op.operands
    name = f.define(op.results[0])
    f.lines.append(f"memcpy(&{name}, {f.use(source)}.data + {f.use(offset)}, sizeof {name});")


def _size(f: CFunction, op: ir.Operation) -> None:
    f.define(op.results[0], f"{f.use(op.operands[0])}.size")


def _constant_buffer(f: CFunction, op: ir.Operation) -> None:
    data = data_of(op.attributes["value"], f.host.resources, partial(f.host.refuse, op=op))
    f.host.constants.append(data)
    index = len(f.host.constants) - 1
    f.define(op.results[0], f"(tiduc_buffer){{(unsigned char *)constant{index}, {len(data)}}}")


def _try_map(f: CFunction, op: ir.Operation) -> None:
    source, offset, size = op.operands
    f.define(op.results[0], "true")
    data = f"{f.use(source)}.data + {f.use(offset)}"
    f.define(op.results[1], f"(tiduc_buffer){{{data}, {f.use(size)}}}")


def _execute(f: CFunction, op: ir.Operation) -> None:
    block = op.regions[0].blocks[0]
    for argument, resource in zip(block.arguments, segments(op)[0], strict=True):
        f.alias(argument, resource)
    _inside(f, op)


def _inside(f: CFunction, op: ir.Operation) -> None:
    for inner in op.regions[0].blocks[0].operations:
        f.emit(inner.operation)


def _copy(f: CFunction, op: ir.Operation) -> None:
    source, _, at, target, _, to, length = (f.use(value) for value in op.operands)
    f.lines.append(f"memcpy({target}.data + {to}, {source}.data + {at}, (size_t){length});")


def _fill(f: CFunction, op: ir.Operation) -> None:
    target, _, offset, length, value = (f.use(value) for value in op.operands)
    kind = f.c_type(op.operands[4].type)
    f.lines.append(f"tiduc_fill({target}.data + {offset}, {length}, &({kind}){{{value}}}, sizeof({kind}));")


def _dispatch(f: CFunction, op: ir.Operation) -> None:
    workload, uniform, resources, _, offsets, lengths = segments(op)
    kernels = list(op.attributes["entry_points"])
    if len(kernels) != 1:
        raise f.host.refuse("a choice among kernels", op)
    if f.host.rehearses:
        return
    kernel = list(kernels[0].value)[-1]
    counts = _workgroups(f, f.host.exports[kernel], workload)
    f.allocated += map(str, local_memory(f.host.exports[kernel]))
    constants = ", ".join(f"(uint32_t){f.use(value)}" for value in uniform)
    pointers = ", ".join(f"{f.use(r)}.data + {f.use(o)}" for r, o in zip(resources, offsets, strict=True))
    sizes = ", ".join(f"(size_t){f.use(value)}" for value in lengths)
    f.checked(
        f"tiduc_dispatch(pool, {f.host.index_of(kernel)}, (const uint32_t[]){{{', '.join(counts)}}}, "
        f"(const uint32_t[]){{{constants or '0'}}}, {len(uniform)}, "
        f"(void *const[]){{{pointers or 'NULL'}}}, (const size_t[]){{{sizes or '0'}}}, {len(resources)})"
    )


def _workgroups(f: CFunction, export: ir.Operation, workload: Sequence[IrValue]) -> list[str]:
    """Returns the C expressions of the numbers of workgroups in x, y and z, as the kernel's export computes them."""
    if not len(list(export.regions)) or not len(list(export.regions[0].blocks)):
        raise f.host.refuse("a kernel without a number of workgroups")
    block = export.regions[0].blocks[0]
    arguments = [a for a in block.arguments if str(a.type) != "!hal.device"]
    for argument, value in zip(arguments, workload, strict=True):
        f.alias(argument, value)
    for inner in block.operations:
        if inner.operation.name == "hal.return":
            return [f"(uint32_t){f.use(value)}" for value in inner.operation.operands]
        f.emit(inner.operation)
    raise AssertionError("an export ends with hal.return")


def global_name(symbol: str) -> str:
    """The name of the C variable for a `util.global`."""
    return f"global_{''.join(c if c.isascii() and c.isalnum() else f'_{ord(c):x}_' for c in symbol)}"


def _load_global(f: CFunction, op: ir.Operation) -> None:
    f.define(op.results[0], global_name(op.attributes["global"].value))


def _store_global(f: CFunction, op: ir.Operation) -> None:
    f.lines.append(f"{global_name(op.attributes['global'].value)} = {f.use(op.operands[0])};")


def _align(f: CFunction, op: ir.Operation) -> None:
    size, multiple = (f.use(value) for value in op.operands)
    f.define(op.results[0], f"({size} + {multiple} - 1) / {multiple} * {multiple}")


def _assert(f: CFunction, op: ir.Operation) -> None:
    f.checked(f"{f.use(op.operands[0])} ? 0 : TIDUC_SIZES")


def _br(f: CFunction, op: ir.Operation) -> None:
    f.lines.append(f.jump(op.successors[0], list(op.operands)))


def _cond_br(f: CFunction, op: ir.Operation) -> None:
    (condition,), true, false = segments(op)
    if is_mapped(op):
        f.lines.append(f.jump(op.successors[0], true))
        return
    f.lines.append(f"if ({f.use(condition)}) {f.jump(op.successors[0], true)}")
    f.lines.append(f.jump(op.successors[1], false))


def _return(f: CFunction, op: ir.Operation) -> None:
    # A donated result is in the argument's memory, or in that of the argument's copy if the argument is not aligned.
    for i, value in sorted(enumerate(op.operands), key=lambda pair: pair[0] in f.donated):
        copy = f"memcpy(results[{i}], {f.use(value)}.data, (size_t){f.use(value)}.size);"
        f.lines.append(f"if (results[{i}] != {f.use(value)}.data) {copy}" if i in f.donated else copy)
    f.lines.append("goto end;")


_TRANSLATE = {
    "cf.assert": _assert,
    "cf.br": _br,
    "cf.cond_br": _cond_br,
    "stream.cmd.concurrent": _inside,
    "stream.cmd.copy": _copy,
    "stream.cmd.dispatch": _dispatch,
    "stream.cmd.execute": _execute,
    "stream.cmd.fill": _fill,
    "stream.cmd.serial": _inside,
    "stream.resource.alloc": _alloca,
    "stream.resource.alloca": _alloca,
    "stream.resource.load": _load,
    "stream.resource.size": _size,
    "stream.resource.subview": _subview,
    "stream.resource.try_map": _try_map,
    "stream.tensor.export": _export,
    "stream.tensor.import": _import,
    "stream.timepoint.await": _await,
    "util.align": _align,
    "util.buffer.constant": _constant_buffer,
    "util.global.load": _load_global,
    "util.global.store": _store_global,
    "util.optimization_barrier": _barrier,
    "util.return": _return,
}
