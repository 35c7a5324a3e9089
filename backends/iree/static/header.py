"""The interface of a static library in C: the parameters of its functions, and the header that declares them.

int step(float *w, const float *x, float *loss);     // w is donated: a call writes the new value of w to *w
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from torch_mlir import ir

from tiduc.backends.backend import Lowered
from tiduc.dialect.graph.functions import functions_in, symbol
from tiduc.dialect.ops.attributes import readable
from tiduc.dialect.ops.compressed import CSR, Compressed, compressed_in
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.dialect.ops.verify import ROLE
from tiduc.runtime.signature import Signature, SignatureValue, TensorType

C_TYPES = {
    "i1": "uint8_t", "f32": "float", "f64": "double", "complex<f32>": "float", "complex<f64>": "double",
    **{f"{sign}i{n}": f"{'u' * (sign == 'u')}int{n}_t" for n in (8, 16, 32, 64) for sign in ("", "s", "u")},
    "f16": "uint16_t", "bf16": "uint16_t",
}  # fmt: skip
"""Maps element types to C types. A complex number is two C numbers; f16 and bf16 are stored as their bits."""

DONATED = "iree.abi.output"
"""The attribute of an argument whose memory receives an output. The value is the index of the output."""

_HEAP = "// The most bytes that a call takes from malloc, with copies of arguments and the local memory of kernels."
HEAP_BYTES = re.compile(r"^#define \w+_HEAP_BYTES (\d+)$", re.MULTILINE)
"""Matches the header's line that defines how much memory a call allocates."""

_WORD = re.compile(r"[A-Za-z_]\w*")
_RESERVED = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long "
    "main register restrict return short signed sizeof static struct switch typedef union unsigned void "
    "volatile while bool true false".split()
)


def is_c_name(name: str) -> bool:
    """Whether a function of C can have this name."""
    return bool(_WORD.fullmatch(name)) and name not in _RESERVED


def c_names(names: Sequence[str]) -> list[str]:
    """Makes a C name from each name. The C names are distinct."""
    seen: set[str] = set()
    found = []
    for text in names:
        name = re.sub(r"\W", "_", text, flags=re.ASCII)
        name = name if is_c_name(name) else f"_{name}"
        while name in seen:
            name += "_"
        seen.add(name)
        found.append(name)
    return found


def _roles(function: IrOp) -> dict[int, str]:
    """Returns the roles of a training step's inputs, such as "parameter", by index. Empty for other programs."""
    found = {i: readable(ir.DictAttr(each), ROLE) for i, each in enumerate(_attributes(function))}
    return {i: role.value for i, role in found.items() if isinstance(role, ir.StringAttr)}


def _attributes(function: IrOp) -> Sequence[ir.Attribute]:
    return list(function.attributes["arg_attrs"]) if "arg_attrs" in function.attributes else ()


def _patterns(function: IrOp, signature: Signature) -> dict[int, Compressed]:
    """Maps each output that has the nonzeros of a sparse matrix, by index, to the pattern: where the nonzeros are."""
    stored = list(function.attributes["res_attrs"]) if "res_attrs" in function.attributes else []
    read = ((i, compressed_in(each, signature.outputs[i].name)) for i, each in enumerate(stored))
    return {i: pattern for i, pattern in read if pattern is not None}


def donations(program: Lowered) -> dict[int, int]:
    """Returns, for each donated input of the first function, by index, the index of the output in its memory."""
    return _donations(functions_in(program.module)[0])


def _donations(function: IrOp) -> dict[int, int]:
    found = {i: readable(ir.DictAttr(each), DONATED) for i, each in enumerate(_attributes(function))}
    return {i: int(output.value) for i, output in found.items() if output is not None}


@dataclass(frozen=True)
class Interface:
    """A C function: its name, its inputs and outputs, the donated inputs, and the roles of inputs.

    - `symbol` is the name of the function in the program.
    - `donated` maps the index of a donated input to the index of the output that is written to its memory.
    - `roles` maps the index of an input to its role.
    - `patterns` maps the index of an output that has the nonzeros of a sparse matrix to the matrix's pattern.
    """

    name: str
    symbol: str
    signature: Signature
    donated: Mapping[int, int]
    roles: Mapping[int, str]
    patterns: Mapping[int, Compressed] = field(default_factory=dict)

    @staticmethod
    def each_of(program: Lowered, name: str) -> "list[Interface]":
        """Returns the interfaces of a program's public functions.

        The first C function is called `name`. The C function for another public function F is called `name_F`.
        """
        first, *rest = functions_in(program.module)
        known = {name: (first, program.signature)}
        known |= {
            f"{name}_{key}": (op, program.others[key]) for op in rest if (key := symbol(op)) in program.others
        }
        return [
            Interface(c, symbol(op), signature, _donations(op), _roles(op), _patterns(op, signature))
            for c, (op, signature) in known.items()
        ]

    def values(self) -> list[SignatureValue]:
        """The inputs and outputs that are C parameters: all except outputs that are written to an input's memory."""
        own = [x for i, x in enumerate(self.signature.outputs) if i not in self.donated.values()]
        return [*self.signature.inputs, *own]

    def parameters(self) -> list[str]:
        """The declarations of the function's parameters."""
        values = self.values()
        pairs = enumerate(zip(values, c_names([value.name for value in values]), strict=True))
        written = {*self.donated, *range(len(self.signature.inputs), len(values))}
        return [
            f"{'' if i in written else 'const '}{C_TYPES[x.type.element]} *{name}" for i, (x, name) in pairs
        ]

    def pointers(self) -> tuple[list[str], list[str]]:
        """Returns the names of the parameters that point to the inputs, and of those that point to the outputs.

        A donated input and the output that is written to its memory have the same parameter.
        """
        names = c_names([value.name for value in self.values()])
        inputs, rest = names[: len(self.signature.inputs)], iter(names[len(self.signature.inputs) :])
        own = {output: inputs[i] for i, output in self.donated.items()}
        return inputs, [own[i] if i in own else next(rest) for i in range(len(self.signature.outputs))]

    def arrays(self) -> dict[str, tuple[str, Compressed]]:
        """Returns a pair for each output that has the nonzeros of a sparse matrix, by parameter name.

        The pair is the prefix of the names of the C arrays that say where the nonzeros are, and the matrix's pattern.
        """
        _, results = self.pointers()
        return {results[i]: (f"{self.name}_{results[i]}", pattern) for i, pattern in self.patterns.items()}

    def declaration(self) -> str:
        """The C function's type, name and parameters."""
        return f"int {self.name}({', '.join(self.parameters())})"

    def declaration_in(self) -> str:
        """The declaration of a variant of the C function, which takes its memory from a buffer of the caller."""
        return f"int {self.name}_call_in({', '.join(['void *tiduc_memory', 'size_t tiduc_size', *self.parameters()])})"


def run_statement(function: str, taken: Sequence[str], given: Sequence[str], memory: str = "NULL, 0") -> str:
    """Returns the C statement that runs a function. `taken` and `given` are pointers to its arguments and results.

    `memory` has the address and the size of the buffer from which the function takes memory. By default, memory comes
    from malloc.
    """
    arrays = [f"{{{', '.join(pointers) or 'NULL'}}}" for pointers in (taken, given)]
    return f"return tiduc_run(call_{function}, (const void *const[]){arrays[0]}, (void *const[]){arrays[1]}, {memory});"


def pattern_declarations(interface: Interface) -> str:
    """Returns C declarations of the sizes and index arrays that say where the nonzeros of sparse results are."""
    lines = []
    for name, (prefix, pattern) in interface.arrays().items():
        major, minor = ("row", "column") if pattern.format == CSR else ("column", "row")
        sizes = dict(
            zip(("rows", "columns", "nonzeros"), (*pattern.shape, len(pattern.indices)), strict=True)
        )
        constants = ", ".join(f"{prefix}_{what} = {size}" for what, size in sizes.items())
        lines += [
            f"// {name}: the nonzeros of a sparse matrix, {major} by {major}. {major.capitalize()} i has those from",
            f"// {prefix}_indptr[i] to {prefix}_indptr[i + 1]; {prefix}_indices has their {minor}s.",
            f"enum {{ {constants} }};",
            *(f"extern const int32_t {prefix}_{what}[];" for what in ("indptr", "indices")),
            "",
        ]
    return "".join(f"{line}\n" for line in lines)


def pattern_definitions(interface: Interface) -> str:
    """The definitions of the arrays that `pattern_declarations` declares."""
    return "".join(
        f"const int32_t {prefix}_{what}[] = {{{', '.join(map(str, numbers.tolist())) or '0'}}};\n"
        for prefix, pattern in interface.arrays().values()
        for what, numbers in (("indptr", pattern.indptr), ("indices", pattern.indices))
    )


def header_of(interface: Interface, heap: int | None, structs: str = "", concurrent: bool = False) -> str:
    """Returns the text of the header. `heap` is the most bytes that a call takes from malloc, or None if unknown.

    `structs` declares the interface of a training step. With `concurrent`, calls need no memory, and the header says
    that they may run at the same time. Otherwise, the header says that the first call must run alone.
    """
    name, guard = interface.name, f"TIDUC_{interface.name.upper()}_H"
    values = interface.values()
    lines = [
        f"//   {name}: {_size(value.type)}{', which the call updates' if i in interface.donated else ''}"
        for i, (name, value) in enumerate(zip(c_names([value.name for value in values]), values, strict=True))
    ]
    described = "\n".join(lines)
    most = "" if heap is None else f"{_HEAP}\n#define {name.upper()}_HEAP_BYTES {heap}\n\n"
    return f"""#ifndef {guard}
#define {guard}

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{most}{structs}{pattern_declarations(interface)}// {name}{interface.signature}
//
{described}
//
// Arrays are dense and row-major; complex numbers are pairs. An array at a multiple of 64 bytes is not copied.
// Returns 0, or 1 if memory ran out, or 2 if a kernel failed, or 6 if sizes that data determine do not agree.
// {"Calls may run at once." if concurrent else "The first call must not run beside another one."}
{interface.declaration()};

{_call_in(interface, heap, concurrent)}

#ifdef __cplusplus
}}
#endif

#endif
"""


def _call_in(interface: Interface, heap: int | None, needs_none: bool) -> str:
    """Returns the header's text for the function that takes its memory from a buffer of the caller.

    With `needs_none`, calls need no memory, so the text defines the function as a call of the function without buffer.
    """
    known = f"{interface.name.upper()}_HEAP_BYTES bytes are enough."
    unknown = "The first call may take memory for constants from malloc."
    about = (
        "// Takes memory from a buffer, not from malloc. Returns 1 if the buffer is too small. "
        f"{unknown if heap is None else known}"
    )
    if not needs_none:
        return f"{about}\n{interface.declaration_in()};"
    names = [each.rpartition("*")[2] for each in interface.parameters()]
    body = f"  (void)tiduc_memory, (void)tiduc_size;\n  return {interface.name}({', '.join(names)});"
    return f"{about}\nstatic inline {interface.declaration_in()} {{\n{body}\n}}"


def count_of(type_: TensorType) -> int:
    """The number of elements of an array."""
    return prod(size or 0 for size in type_.shape)


def size_of(type_: TensorType) -> int:
    """The size of an array in bytes."""
    assert type_.dtype is not None
    return count_of(type_) * type_.dtype.itemsize


def _size(type: TensorType) -> str:
    count = (2 if type.element.startswith("complex") else 1) * count_of(type)
    return f"{count} numbers of {type.element}" if count != 1 else f"1 number of {type.element}"
