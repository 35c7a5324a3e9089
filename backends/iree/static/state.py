"""The C interface of a training step: a struct for the state, a struct for a batch, and functions on them.

int net_step(net_state *state, const net_batch *batch, float *loss);
int net_load(net_state *state, const char *path);                       // and net_save, and net_read from memory

The roles of a step's inputs (`tidu.role`) say which arrays belong to the state. Files have safetensors format.
"""

import json
from math import prod

from tiduc.backends.iree.static.header import C_TYPES, Interface, c_names
from tiduc.runtime.signature import SignatureValue, TensorType

STORED = ("parameter", "optimizer", "buffer", "seed", "frozen")
"""The roles of inputs that belong to the state."""

_DTYPES = {
    "i1": "BOOL", "f16": "F16", "bf16": "BF16", "f32": "F32", "f64": "F64",
    **{f"{sign}i{n}": f"{'U' if sign == 'u' else 'I'}{n}" for n in (8, 16, 32, 64) for sign in ("", "s", "u")},
}  # fmt: skip
"""The names of element types in safetensors files."""
_MOST_DIMENSIONS = 8


class State:
    """The inputs of a training step as the fields of two structs."""

    def __init__(self, interface: Interface) -> None:
        self.interface = interface
        inputs = interface.signature.inputs
        self.stored = [i for i in range(len(inputs)) if interface.roles.get(i) in STORED]
        self.given = [i for i in range(len(inputs)) if i not in self.stored]
        self.fields = {
            i: name
            for group in (self.stored, self.given)
            for i, name in zip(group, c_names([inputs[i].name for i in group]), strict=True)
        }

    @property
    def exists(self) -> bool:
        """Whether the program is a training step whose state can be stored in files."""
        values = [self.interface.signature.inputs[i] for i in self.stored]
        fit = all(x.type.element in _DTYPES and len(x.type.shape) <= _MOST_DIMENSIONS for x in values)
        return bool(self.stored) and fit and len(self.interface.roles) == len(self.interface.signature.inputs)

    def _results(self) -> list[tuple[str, SignatureValue]]:
        """The outputs other than the new state, with their names in C."""
        outputs = self.interface.signature.outputs
        own = [x for i, x in enumerate(outputs) if i not in self.interface.donated.values()]
        return list(zip(c_names(["state", "batch", *(x.name for x in own)])[2:], own, strict=True))

    def _signature(self) -> str:
        results = "".join(f", {C_TYPES[x.type.element]} *{name}" for name, x in self._results())
        name = self.interface.name
        return f"int {name}_step({name}_state *state, const {name}_batch *batch{results})"

    def declarations(self) -> str:
        """The declarations for the header: the structs, the table of arrays, and the functions."""
        name = self.interface.name
        arrays = "\n".join(f"  {self._array(i)}" for i in self.stored)
        batch = "\n".join(f"  {self._pointer(i)}" for i in self.given)
        return f"""#include <stddef.h>

#ifndef TIDUC_ALIGNED
#ifdef __cplusplus
#define TIDUC_ALIGNED alignas(64)
#else
#define TIDUC_ALIGNED _Alignas(64)
#endif
#endif

// The state: the weights, and what the optimizer and the model keep. A state may be copied and compared as bytes.
typedef struct {{
{arrays}
}} {name}_state;

// The arrays of one call, which reads them.
typedef struct {{
{batch}
}} {name}_batch;

// The arrays of the state, in order: their names, types and places. `spelled` is the name in JSON.
typedef struct {{
  const char *name, *spelled, *dtype, *role;
  size_t offset, size;
  int rank;
  int64_t shape[{_MOST_DIMENSIONS}];
}} {name}_array;
enum {{ {name.upper()}_ARRAYS = {len(self.stored)} }};
extern const {name}_array {name}_arrays[{len(self.stored)}];

// Updates the state by a batch. Status 0; or 1 if memory ran out, or 2 if a kernel failed: load a saved state then.
// Threads may step different states at once, after one call has returned; a state is for one thread at a time.
{self._signature()};

// Read the state from a safetensors file, in memory or on a disk, such as that of `tiduc train-step --state`, and
// write it; a new file replaces the old one when it is complete. Status 0; or 1 if memory ran out, 3 if the file cannot
// be read or written, 4 if its arrays are not those of this model, 5 if its checksum is wrong. The state is then as it
// was.
// -DTIDUC_NO_FILES leaves out the functions for disks.
int {name}_read({name}_state *state, const void *data, size_t size);
int {name}_load({name}_state *state, const char *path);
int {name}_save(const {name}_state *state, const char *path);

"""

    def definitions(self) -> str:
        """The definitions for the C file, after the positional function: the table, and the step."""
        name = self.interface.name
        rows = "\n".join(f"  {self._row(i)}" for i in self.stored)
        arguments = ", ".join(self._argument(i) for i in range(len(self.interface.signature.inputs)))
        results = "".join(f", {result}" for result, _ in self._results())
        return f"""
const {name}_array {name}_arrays[] = {{
{rows}
}};

{self._signature()} {{
  return {name}({arguments}{results});
}}

#define TIDUC_STATE {name}_state
#define TIDUC_ARRAY {name}_array
#define TIDUC_TABLE {name}_arrays
#define TIDUC_ARRAYS {name.upper()}_ARRAYS
#define TIDUC_READ {name}_read
#define TIDUC_LOAD {name}_load
#define TIDUC_SAVE {name}_save
"""

    def _value(self, i: int) -> SignatureValue:
        return self.interface.signature.inputs[i]

    def _array(self, i: int) -> str:
        x = self._value(i)
        about = f"// {x}, {self.interface.roles[i]}"
        return f"TIDUC_ALIGNED {C_TYPES[x.type.element]} {self.fields[i]}[{max(1, _count(x.type))}];  {about}"

    def _pointer(self, i: int) -> str:
        x, kind = self._value(i), C_TYPES[self._value(i).type.element]
        is_number = not x.type.shape and not x.type.element.startswith("complex")
        spelled = f"{kind} {self.fields[i]}" if is_number else f"const {kind} *{self.fields[i]}"
        return f"{spelled};  // {x}, {self.interface.roles[i]}"

    def _argument(self, i: int) -> str:
        x = self._value(i)
        if i in self.stored:
            return f"state->{self.fields[i]}"
        is_number = not x.type.shape and not x.type.element.startswith("complex")
        return f"{'&' if is_number else ''}batch->{self.fields[i]}"

    def _row(self, i: int) -> str:
        x, name = self._value(i), self.interface.name
        spelled = json.dumps(x.name, ensure_ascii=False)[1:-1]
        shape = ", ".join(map(str, x.type.shape)) or "0"
        assert x.type.dtype is not None
        size = _count(x.type) * x.type.dtype.itemsize
        texts = ", ".join(map(_quoted, (x.name, spelled, _DTYPES[x.type.element], self.interface.roles[i])))
        place = f"offsetof({name}_state, {self.fields[i]}), {size}"
        return f"{{{texts}, {place}, {len(x.type.shape)}, {{{shape}}}}},"


def _count(type_: TensorType) -> int:
    return prod(size or 0 for size in type_.shape)


def _quoted(text: str) -> str:
    """A string literal of C."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
