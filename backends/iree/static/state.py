"""The C interface of a training step: a struct for the state, a struct for a batch, and functions on them.

int net_step(net_state *state, const net_batch *batch, float *loss);
int net_infer(const net_state *state, const net_infer_batch *batch, float *y);   // and net_loss
int net_load(net_state *state, const char *path);            // and net_save; net_read, net_write in memory

The inputs' roles (`tidu.role`) determine which arrays belong to the state. Files are in safetensors format.
"""

import json
from collections.abc import Mapping, Sequence

from tiduc.backends.iree.static.header import C_TYPES, Interface, c_names, count_of, run_statement, size_of
from tiduc.runtime.signature import SignatureValue, TensorType

STORED = ("parameter", "optimizer", "buffer", "seed", "frozen")
"""The roles of inputs that are arrays of the state."""

_COMPLEX = {"complex<f32>": "C64", "complex<f64>": "C128"}
_DTYPES = {
    "i1": "BOOL", "f16": "F16", "bf16": "BF16", "f32": "F32", "f64": "F64",
    **{f"{sign}i{n}": f"{'U' if sign == 'u' else 'I'}{n}" for n in (8, 16, 32, 64) for sign in ("", "s", "u")},
    **_COMPLEX,
}  # fmt: skip
"""The names of element types in safetensors files."""
_MOST_DIMENSIONS = 8


class State:
    """The C code for the state of a training step: a struct of the inputs to store, and the functions that take it.

    `interfaces` are the interfaces of the step and of the functions `loss` and `infer`, if they exist. `identity` is
    the name of the model, which files with a saved state contain.
    """

    def __init__(self, interfaces: Sequence[Interface], identity: str) -> None:
        self.interface, self.identity = interfaces[0], identity
        self.stored = _stored(self.interface)
        names = c_names([x.name for x in self.stored.values()])
        self.fields = dict(zip((x.name for x in self.stored.values()), names, strict=True))
        self.calls = [_Call(each, self) for each in interfaces] if self.exists else []

    @property
    def exists(self) -> bool:
        """Whether the program is a training step whose state can be stored in files."""
        types = [x.type for x in self.stored.values()]
        fit = all(
            type_.element in _DTYPES
            and type_.element not in _COMPLEX
            and len(type_.shape) <= _MOST_DIMENSIONS
            for type_ in types
        )
        return bool(self.stored) and fit and len(self.interface.roles) == len(self.interface.signature.inputs)

    def declarations(self) -> str:
        """The declarations for the header: the structs, the tables of arrays, and the functions."""
        name = self.interface.name
        arrays = "\n".join(f"  {self._array(i)}" for i in self.stored)
        structs = "".join(each.struct() for each in self.calls)
        tables = "".join(each.declared_tables() for each in self.calls)
        return f"""#include <stddef.h>

#ifndef TIDUC_ALIGNED
#ifdef __cplusplus
#define TIDUC_ALIGNED alignas(64)
#else
#define TIDUC_ALIGNED _Alignas(64)
#endif
#endif

// The state: the weights, and the arrays that the optimizer and the model keep. States may be copied and compared as
// bytes.
typedef struct {{
{arrays}
}} {name}_state;

{structs}// An array: its name, type and role, and its offset and size in a struct. `spelled` is the name in JSON.
typedef struct {{
  const char *name, *spelled, *dtype, *role;
  size_t offset, size;
  int rank;
  int64_t shape[{self._longest()}];
}} {name}_array;

// The arrays of the state, in order, and those of the other structs and of results.
enum {{ {name.upper()}_ARRAYS = {len(self.stored)} }};
extern const {name}_array {name}_arrays[{len(self.stored)}];
{tables}extern const size_t {name}_state_bytes;  // for languages that do not read this header; at multiples of 64 bytes

// Threads: the first call must return before another thread makes a call. From then on, threads may step different
// states at once, and threads that only evaluate and infer may share a state while no thread changes it.
// Status: 0; or 1 if memory ran out, or 2 if a kernel failed, or 6 if sizes that data determine do not agree: load a
// saved state then.
{"".join(each.declaration() for each in self.calls)}
// Read the state from a safetensors file, in memory or on a disk, such as that of `tiduc train-step --state`, and
// write it; a new file replaces the old one when it is complete. Status 0; or 1 if memory ran out, 3 if the file cannot
// be read or written, 4 if it has the state of another model, or other arrays than this state, 5 if its checksum is
// wrong. If the status is not 0, the state is unchanged.
// {name}_write writes the file into memory if it fits into `size` bytes. It returns the number of bytes of the file,
// for which it reads neither the state nor the memory: {name}_write(NULL, NULL, 0).
// -DTIDUC_NO_FILES leaves out the functions for disks.
#define {name.upper()}_MODEL {_quoted(self.identity)}
int {name}_read({name}_state *state, const void *data, size_t size);
size_t {name}_write(const {name}_state *state, void *data, size_t size);
int {name}_load({name}_state *state, const char *path);
int {name}_save(const {name}_state *state, const char *path);

"""

    def definitions(self) -> str:
        """The definitions for the end of the C file: the tables, and the functions on the struct."""
        name = self.interface.name
        places = {i: (f"{name}_state", self.fields[x.name]) for i, x in self.stored.items()}
        roles = self.interface.roles
        return f"""
{table(f"{name}_arrays", name, [row(x, roles[i], places[i]) for i, x in self.stored.items()])}
const size_t {name}_state_bytes = sizeof({name}_state);
{"".join(each.definition() for each in self.calls)}
#define TIDUC_STATE {name}_state
#define TIDUC_ARRAY {name}_array
#define TIDUC_TABLE {name}_arrays
#define TIDUC_ARRAYS {name.upper()}_ARRAYS
#define TIDUC_MODEL {name.upper()}_MODEL
#define TIDUC_READ {name}_read
#define TIDUC_WRITE {name}_write
#define TIDUC_LOAD {name}_load
#define TIDUC_SAVE {name}_save
"""

    def _array(self, i: int) -> str:
        x = self.stored[i]
        about = f"// {x}, {self.interface.roles[i]}"
        field = f"{self.fields[x.name]}[{max(1, count_of(x.type))}]"
        return f"TIDUC_ALIGNED {C_TYPES[x.type.element]} {field};  {about}"

    def _longest(self) -> int:
        """The largest rank of an array in a table, at least 1."""
        signatures = [each.interface.signature for each in self.calls]
        return max(len(x.type.shape) for s in signatures for x in (*s.inputs, *s.outputs)) or 1


class _Call:
    """A C function that takes a state, a struct of its other inputs, and pointers to which it writes its results."""

    def __init__(self, interface: Interface, state: State) -> None:
        self.interface, self.state = interface, state
        self._name = state.interface.name
        self.is_step = interface is state.interface
        prefix = "" if self.is_step else f"{interface.name.removeprefix(self._name)}"
        self.batch, self.results = f"{self._name}{prefix}_batch", f"{self._name}{prefix}_results"
        self.function = f"{self._name}_step" if self.is_step else interface.name
        inputs = interface.signature.inputs
        self.given = [i for i in range(len(inputs)) if i not in _stored(interface)]
        self.fields = dict(zip(self.given, c_names([inputs[i].name for i in self.given]), strict=True))
        outputs = interface.signature.outputs
        self.own = [x for i, x in enumerate(outputs) if i not in interface.donated.values()]
        self.names = c_names(["state", "batch", *(x.name for x in self.own)])[2:]

    def struct(self) -> str:
        fields = "\n".join(f"  {self._field(i)}" for i in self.given) or "  char unused;"
        return f"""// The arrays of one call of {self.function}, which reads them.
typedef struct {{
{fields}
}} {self.batch};

"""

    def declared_tables(self) -> str:
        tables = ((f"{self.batch}_arrays", len(self.given)), (self.results, len(self.own)))
        return "".join(f"extern const {self._name}_array {name}[{n}];\n" for name, n in tables if n)

    def declaration(self) -> str:
        about = (
            "Updates the state by a batch."
            if self.is_step
            else "Reads the state, in evaluation mode: with the running statistics of batch norm, and without dropout."
        )
        results = "".join(f"//   {name}: {x}\n" for name, x in zip(self.names, self.own, strict=True))
        return f"// {about}\n{results}{self._signature()};\n"

    def _signature(self) -> str:
        pairs = zip(self.names, self.own, strict=True)
        results = "".join(f", {C_TYPES[x.type.element]} *{name}" for name, x in pairs)
        state = f"{'' if self.is_step else 'const '}{self._name}_state *state"
        return f"int {self.function}({state}, const {self.batch} *batch{results})"

    def definition(self) -> str:
        inputs = [
            row(self._input(i), self.interface.roles[i], (self.batch, self.fields[i])) for i in self.given
        ]
        outputs = [row(x, "result", None) for x in self.own]
        tables = [table(f"{self.batch}_arrays", self._name, inputs), table(self.results, self._name, outputs)]
        taken = [self._argument(i) for i in range(len(self.interface.signature.inputs))]
        own = {output: taken[i] for i, output in self.interface.donated.items()}
        rest = iter(self.names)
        given = [own[i] if i in own else next(rest) for i in range(len(self.interface.signature.outputs))]
        return f"""
{"".join(f"{each}" for each in tables)}
{self._signature()} {{
  (void)state, (void)batch;
  {run_statement(self.interface.name, taken, given)}
}}
"""

    def _input(self, i: int) -> SignatureValue:
        return self.interface.signature.inputs[i]

    def _field(self, i: int) -> str:
        x = self._input(i)
        kind = C_TYPES[x.type.element]
        spelled = f"{kind} {self.fields[i]}" if _is_number(x.type) else f"const {kind} *{self.fields[i]}"
        return f"{spelled};  // {x}, {self.interface.roles[i]}"

    def _argument(self, i: int) -> str:
        x = self._input(i)
        if i in self.given:
            return f"{'&' if _is_number(x.type) else ''}batch->{self.fields[i]}"
        return f"state->{self.state.fields[x.name]}"


def _stored(interface: Interface) -> Mapping[int, SignatureValue]:
    """Returns the inputs of a function that belong to the state, by index."""
    inputs = enumerate(interface.signature.inputs)
    return {i: x for i, x in inputs if interface.roles.get(i) in STORED}


def table(name: str, prefix: str, rows: Sequence[str]) -> str:
    """Returns the C definition of a table of arrays, or "" if there are no rows."""
    lines = "\n".join(f"  {each}" for each in rows)
    return f"const {prefix}_array {name}[] = {{\n{lines}\n}};\n" if rows else ""


def row(x: SignatureValue, role: str, place: tuple[str, str] | None) -> str:
    """Returns the row of an array in a C table. `place` is the array's struct and field, or None for a result."""
    spelled = json.dumps(x.name, ensure_ascii=False)[1:-1]
    shape = ", ".join(map(str, x.type.shape)) or "0"
    texts = ", ".join(map(_quoted, (x.name, spelled, _DTYPES[x.type.element], role)))
    offset = f"offsetof({place[0]}, {place[1]})" if place else "0"
    return f"{{{texts}, {offset}, {size_of(x.type)}, {len(x.type.shape)}, {{{shape}}}}},"


def _is_number(type_: TensorType) -> bool:
    """Whether a struct contains values of this type directly, not as pointers."""
    return not type_.shape and not type_.element.startswith("complex")


def _quoted(text: str) -> str:
    """A string literal of C."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
