"""Compiles a small program to a static library with one kernel, which is straight-line code of scalar ops."""

import re
from collections.abc import Sequence
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from tiduc.backends.backend import Lowered, Options
from tiduc.backends.iree.build import build_kernel
from tiduc.backends.iree.static.header import Interface, pattern_definitions, size_of
from tiduc.backends.iree.static.scalars.arrays import Evaluation, ScalarArray, effective, uniform
from tiduc.backends.iree.static.scalars.code import Scalars, SplitByLane, module_code
from tiduc.backends.iree.static.scalars.function_code import ArrayPort
from tiduc.backends.iree.static.scalars.numbers import CONSTANT, FLOATS, ScalarOps, TooLarge
from tiduc.backends.iree.static.scalars.rules import RULES
from tiduc.backends.iree.static.shared import shared
from tiduc.dialect.graph.functions import functions_in
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.dialect.ops.verify import SEED
from tiduc.runtime.signature import SignatureValue

MOST_OPS = 2**14
"""The most scalar ops of a program. An op's code takes about 8 bytes, and 16,384 ops compile in about 2 seconds."""

MOST_BYTES = 2**15
"""The most bytes of all arguments together. Copies of them, which a call may need, must fit on the stack."""

_MOST_ARRAYS = 2**8 - 1
"""The most arguments and results, because a kernel of IREE counts them in 8 bits."""

_LEAST_PLACES = 4

_MOST_CONSTANTS = 2**8
"""The most constants that vectors read. A constant takes 32 bytes there, and loops over arrays read them faster."""

_MOST_KEPT = 2**12
"""The most numbers that the code for vectors reads from the stack, of 8 bytes each."""

_VECTOR_COST, _USUAL_WIDTH = 1.5, 4
"""The cost of an op on vectors, in ops on scalars, and the number of places that it computes.

CPUs with AVX2 compute such an op as one op on vectors of 32 bytes, or as two on vectors of 16 bytes.
"""

_ALL_PER_NEEDED = 1.5
"""The largest usual ratio of all scalar ops to those that the results need."""


class ScalarKernel(NamedTuple):
    """The object file of a kernel, and the text of the C file that calls the kernel."""

    kernels: bytes
    host: str


def compile_scalars(
    program: Lowered, interfaces: Sequence[Interface], options: Options, flags: Sequence[str] = ()
) -> ScalarKernel | None:
    """Compiles a program of few scalar ops to a kernel. Returns None for other programs.

    Raises `CompileError` if IREE's compiler refuses the code.
    """
    interface, *others = interfaces
    signature = interface.signature
    values = [*signature.inputs, *signature.outputs]
    sizes = sum(size_of(x.type) for x in signature.inputs)
    if others or interface.donated or sizes > MOST_BYTES or len(values) > _MOST_ARRAYS or not options.fast:
        return None
    if not signature.outputs or any(x.type.element not in FLOATS or not prod(_shape(x)) for x in values):
        return None
    found = scalars_of(program.module.operation, signature.inputs, signature.outputs, options.finite)
    if found is None:
        return None
    kernels = build_kernel(interface.name, partial(_module, interface.name, found), options, flags)
    return ScalarKernel(kernels, _host(interface))


def scalars_of(
    module: IrOp,
    inputs: Sequence[SignatureValue],
    outputs: Sequence[SignatureValue],
    finite: bool = False,
) -> Scalars | None:
    """Returns the scalar ops of a module's first function, or None if there are too many or an op is not supported.

    With `finite`, a product of x and a zero constant is simplified to zero, because x is assumed to be finite.
    """
    request = partial(_scalars, module, inputs, outputs, finite)
    first = {x.type.shape[0] if x.type.shape else 0 for x in outputs}
    count = first.pop() or 0
    if not first and count >= _LEAST_PLACES and any(x.type.shape[:1] == (count,) for x in inputs):
        found = request(places=count)
        if found is not None:
            return found
    vectors = _basis_vectors(module)
    rolled = request(vectors=vectors) if vectors >= _LEAST_PLACES else None
    if rolled is None:
        return request()
    parts = SplitByLane(rolled)
    constants = sum(rolled.numbers.all[i].name == CONSTANT for i in parts.read_later)
    if constants > _MOST_CONSTANTS or len(parts.kept) > _MOST_KEPT:
        return request()
    cost = parts.cost(_VECTOR_COST * -(-vectors // _USUAL_WIDTH))
    unrolled = request(most=min(MOST_OPS, int(_ALL_PER_NEEDED * cost)))
    return rolled if unrolled is None or SplitByLane(unrolled).cost(0) > cost else unrolled


def _basis_vectors(module: IrOp) -> int:
    """The number of basis vectors of the Jacobian that a module computes, or 0 if there are several Jacobians."""
    bodies = [function.regions[0].blocks[0] for function in functions_in(module)]
    seeds = [op for body in bodies for op in operations(body) if SEED in op.attributes]
    counts = {op.results[0].type.shape[0] for op in seeds}
    return counts.pop() if len(counts) == 1 else 0


def _scalars(
    module: IrOp,
    inputs: Sequence[SignatureValue],
    outputs: Sequence[SignatureValue],
    finite: bool,
    *,
    places: int = 1,
    vectors: int = 0,
    most: int = MOST_OPS,
) -> Scalars | None:
    """Returns at most `most` scalar ops that compute a module's first function, or None.

    The lane is the first dimension of all results, of size `places`, or, if `vectors` is not 0, the dimension of the
    basis vectors of a Jacobian, whose number is `vectors`.
    """
    numbers = ScalarOps(most, finite)
    arguments = []
    for which, x in enumerate(inputs):
        shape = _shape(x)
        lane = 0 if places > 1 and shape[:1] == (places,) else None
        sizes = effective(shape, lane)
        ids = [numbers.input(which, i, x.type.element) for i in range(prod(sizes))]
        arguments.append(ScalarArray(np.array(ids, np.int64).reshape(sizes), lane))
    try:
        results = Evaluation(numbers, module, RULES, vectors).run(functions_in(module)[0], arguments)
        if places > 1:
            if any(y.lane not in (None, 0) for y in results):
                return None
            results = [y if y.lane == 0 else ScalarArray(uniform(y.ids, 0), 0) for y in results]
    except TooLarge:
        return None
    return Scalars(numbers, _ports(inputs, arguments), _ports(outputs, results), vectors or places)


def _ports(values: Sequence[SignatureValue], arrays: Sequence[ScalarArray]) -> list[ArrayPort]:
    return [ArrayPort(x.type.element, _shape(x), y) for x, y in zip(values, arrays, strict=True)]


def _shape(x: SignatureValue) -> tuple[int, ...]:
    return tuple(n or 0 for n in x.type.shape)


# ---- the scalar ops become a kernel, which a C function calls --------------------------------------------------


def _module(name: str, found: Scalars, described: str) -> str:
    """Returns the text of a module with the kernel. `described` is a module with IREE's description of the device."""
    device = next(line for line in described.splitlines() if "#hal.device.target" in line)
    target = device[device.index("#hal.executable.target") : device.rindex("]>")]
    layout, triple = (_word(key, target) for key in ("data_layout", "target_triple"))
    bytes_ = re.search(r"native_vector_size = (\d+)", target)
    widest = max(int(port.kind[1:]) // 8 for port in (*found.inputs, *found.outputs))
    width = 1 if found.places == 1 or bytes_ is None else max(1, int(bytes_[1]) // widest)
    while found.places < width:
        width //= 2
    code = module_code(name, found, width)
    count = len(found.inputs) + len(found.outputs)
    bindings = ", ".join(["#hal.pipeline.binding<storage_buffer, Indirect>"] * count)
    return f"""module @{name} attributes {{stream.affinity.default = #hal.device.affinity<@__device_0>}} {{
{device}
hal.executable public @{name} {{
hal.executable.variant public @static target({target}) {{
hal.executable.export public @{name}_kernel ordinal(0)
    layout(#hal.pipeline.layout<bindings = [{bindings}], flags = Indirect>)
    count(%device: !hal.device) -> (index, index, index) {{
  %one = arith.constant 1 : index
  hal.return %one, %one, %one : index, index, index
}} <workgroup_size = [1 : index, 1 : index, 1 : index]>
builtin.module attributes {{llvm.data_layout = {layout}, llvm.target_triple = {triple}}} {{
{code}
}}
}}
}}
}}
"""


def _word(key: str, target: str) -> str:
    found = re.search(rf'{key} = ("[^"]*")', target)
    assert found is not None, f"IREE's target has no {key}"
    return found[1]


def _host(interface: Interface) -> str:
    """Returns the text of the C file, whose function calls the kernel."""
    name, signature = interface.name, interface.signature
    taken, given = ([size_of(x.type) for x in side] for side in (signature.inputs, signature.outputs))
    pointers = interface.pointers()
    arrays = [", ".join(names) or "NULL" for names in pointers]
    query = f"{name}_library_query"
    return f"""// {name}: host code that tiduc wrote; {name}.o has the kernel.
#include "{name}.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

{shared("records.c")}
const void *{query}(uint32_t version, const tiduc_environment *environment);
#define TIDUC_QUERY {query}
#define TIDUC_ARGUMENTS {len(taken)}
#define TIDUC_RESULTS {len(given)}
#define TIDUC_TAKEN {{{", ".join(map(str, taken or [0]))}}}
#define TIDUC_GIVEN {{{", ".join(map(str, given))}}}
#define TIDUC_BYTES {sum((n + 7) // 8 * 8 for n in taken) or 1}
{shared("scalars.c")}
{pattern_definitions(interface)}
{interface.declaration()} {{
  const void *const arguments[] = {{{arrays[0]}}};
  void *const results[] = {{{arrays[1]}}};
  return tiduc_run(arguments, results);
}}
"""
