"""Compiles a program to a static library, which gives C programs a function such as this one:

int predict(const float *x, float *y);     // returns 0, or 1 if memory ran out, or 2 if a kernel failed

The library is an object file of kernels, a C file of host code, and a header.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf

from iree.compiler import ir

from tiduc.backends.backend import LOOPS, Lowered, Options
from tiduc.backends.iree.build import build, build_objects
from tiduc.backends.iree.modules.ops import IrValue
from tiduc.backends.iree.objects import ObjectFile
from tiduc.backends.iree.static.header import (
    C_TYPES,
    Interface,
    header_of,
    is_c_name,
    pattern_definitions,
    run_statement,
    size_of,
)
from tiduc.backends.iree.static.host import CFunction, Host, global_name
from tiduc.backends.iree.static.scalars.compile import compile_scalars
from tiduc.backends.iree.static.shared import shared
from tiduc.backends.iree.static.state import State
from tiduc.backends.iree.targets import find_target
from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.resources import contents_by_name
from tiduc.runtime.signature import Signature


@dataclass(frozen=True)
class Library:
    """The files of a static library: the object file of kernels, the C file of host code, its header, a CMake package.

    `module` is the program's module for IREE's runtime, or empty if the module was not requested.
    """

    kernels: bytes
    host: str
    header: str
    package: str
    module: bytes = b""


def compile_library(
    program: Lowered,
    name: str,
    options: Options,
    flags: Sequence[str] = (),
    identity: str = "",
    *,
    beside_module: bool = False,
    folder: str | None = None,
    tell: Callable[[str], None] | None = None,
) -> Library:
    """Compiles a program to a static library with a function in C11 called `name`.

    `flags` are further flags of iree-compile. `identity` is the name of the model that a training step writes into its
    saved state. With `beside_module`, also compiles the program's module; most compiler runs serve both. `folder` and
    `tell` are passed to `build`.

    Raises `RequestError` if `name` is not a C name, or if static libraries do not support a property of the request,
    such as its target or a dynamic shape. Raises `CompileError` if the kernels or the host code cannot be compiled.
    """
    target = find_target(options.target)
    if not any(flag.endswith("=llvm-cpu") for flag in target.flags):
        raise RequestError(f"target {target.name!r} has no static libraries: IREE writes them for CPUs only")
    if not is_c_name(name):
        raise RequestError(f"{name!r} cannot name a function in C: choose another name for the output")
    if options.lapack != LOOPS:
        raise RequestError("a static library cannot call LAPACK on the host: it runs without NumPy")
    interfaces = Interface.each_of(program, name)
    for each in interfaces:
        _check_values(each.signature)
    state = State(interfaces, identity)
    if not state.exists and len(interfaces) > 1:
        raise RequestError(
            "the functions beside a training step need a state whose arrays can be stored in files"
        )
    package = shared("package.cmake").replace("@NAME@", name)
    small = compile_scalars(program, interfaces, options, flags)
    if small is not None:
        module = build(program, options, flags, folder=folder, tell=tell) if beside_module else b""
        return Library(
            small.kernels, small.host, header_of(interfaces[0], 0, concurrent=True), package, module
        )
    file = ObjectFile(name, partial(_check_host, interfaces), beside_module)
    objects, module = build_objects(program, options, file, flags, folder=folder, tell=tell)
    query = re.search(r"\w+_library_query", objects.header)
    host, heap = _host_code(objects.text, query[0] if query else "", interfaces, state)
    structs = state.declarations() if state.exists else ""
    return Library(objects.kernels, host, header_of(interfaces[0], heap, structs), package, module)


def _check_values(signature: Signature) -> None:
    for value in (*signature.inputs, *signature.outputs):
        if None in value.type.shape:
            raise RequestError(f"{value} has a dynamic shape, and a static library needs static shapes")
        if value.type.element not in C_TYPES:
            raise RequestError(f"C has no type for the elements of {value}")


def _check_host(interfaces: Sequence[Interface], text: bytes) -> None:
    """Raises `CompileError` if the host code in `text` cannot be translated to C.

    This check runs before the kernels are compiled, because compiling them takes long.
    """
    with ir.Context() as context:
        functions = _Functions(Host(f"@{interfaces[0].name}", {}, rehearses=True), interfaces)
        for op in ir.Module.parse(text, context).body.operations:
            functions.add(op.operation)


# ---- the host code becomes a C file ----------------------------------------------------------------------------


def _host_code(
    text: bytes, query: str, interfaces: Sequence[Interface], state: State
) -> tuple[str, int | None]:
    """Returns the text of the C file, and the most bytes that a call takes from malloc, or None if unknown."""
    name = interfaces[0].name
    with ir.Context() as context:
        module = ir.Module.parse(text, context)
        operations = [o.operation for o in module.body.operations]
        exports = {key: op for executable in operations for key, op in _exports(executable)}
        resources = contents_by_name(text.decode("utf-8", "surrogateescape"))
        functions = _Functions(Host(f"@{name}", exports, resources=resources), interfaces)
        for op in operations:
            functions.add(op)
    host = functions.host
    code = "\n".join(
        (
            f"// {name}: host code that tiduc wrote; {name}.o has the kernels.",
            f'#include "{name}.h"\n\n#include <stdbool.h>\n#include <stddef.h>\n#include <string.h>\n',
            shared("records.c"),
            shared("prelude.c"),
            *(_linked(query, host) if host.called else ()),
            pattern_definitions(interfaces[0]),
            *(_array(i, data) for i, data in enumerate(host.constants)),
            *functions.variables,
            *functions.initializers,
            *functions.public,
            _entry(interfaces[0], len(functions.initializers), bool(host.called), functions.prepared),
            *((state.definitions(), shared("state.c")) if state.exists else ()),
        )
    )
    heap = inf if functions.prepared == inf else max(functions.taken)
    return code, None if heap == inf else int(heap)


def _linked(query: str, host: Host) -> tuple[str, ...]:
    """Returns the C code that finds the kernels in the object file and runs them."""
    return (
        f"const void *{query}(uint32_t version, const tiduc_environment *environment);",
        f"#define TIDUC_QUERY {query}",
        f"static const char *const tiduc_names[] = {{{', '.join(map(_quoted, host.called))}}};",
        shared("dispatch.c"),
    )


class _Functions:
    """Translates the ops of a module to C functions and variables, and adds up the bytes that they take from malloc.

    `prepared` is the number of bytes for all initializers, and `taken` has the number for each public function.
    """

    def __init__(self, host: Host, interfaces: Sequence[Interface]) -> None:
        self.host = host
        self.variables: list[str] = []
        self.initializers: list[str] = []
        self.public: list[str] = []
        self.prepared: float = 0
        self.taken: list[float] = []
        self._interfaces = {each.symbol: each for each in interfaces}

    def add(self, op: ir.Operation) -> None:
        """Translates a top-level op of the module."""
        if op.name == "util.initializer":
            code, heap = _function(self.host, op, f"initialize{len(self.initializers)}", {})
            self.initializers.append(code)
            self.prepared += heap
        elif op.name == "util.func" and _is_public(op):
            name = op.attributes["sym_name"].value
            if name not in self._interfaces:
                raise self.host.refuse(f"a further function @{name}", op)
            interface = self._interfaces[name]
            arguments = tuple(op.regions[0].blocks[0].arguments)
            sizes = [size_of(x.type) for x in interface.signature.inputs]
            given = frozenset(interface.donated.values())
            called = dict(zip(arguments, sizes, strict=True))
            code, heap = _function(self.host, op, f"call_{interface.name}", called, given)
            self.public.append(code)
            self.taken.append(heap)
        elif op.name == "util.global" and "!hal.device" not in str(op.attributes["type"]):
            self.variables.append(f"static tiduc_buffer {global_name(op.attributes['sym_name'].value)};")
        elif op.name not in ("util.global", "hal.executable", "stream.executable"):
            raise self.host.refuse(op.name, op)


def _is_public(function: ir.Operation) -> bool:
    """Whether a function's visibility is "public", or is missing, as in modules read from bytecode."""
    name = "sym_visibility"
    return name not in function.attributes or function.attributes[name].value == "public"


def _exports(executable: ir.Operation) -> Iterator[tuple[str, ir.Operation]]:
    """Yields the name and the op `hal.executable.export` of each kernel in an executable.

    Yields nothing for other ops.
    """
    if executable.name != "hal.executable":
        return
    for variant in executable.regions[0].blocks[0].operations:
        if variant.operation.name == "hal.executable.variant":
            for op in variant.operation.regions[0].blocks[0].operations:
                if op.operation.name == "hal.executable.export":
                    yield op.operation.attributes["sym_name"].value, op.operation


def _quoted(text: str) -> str:
    return f'"{text}"'


def _array(index: int, data: bytes) -> str:
    """The C definition of a constant array, aligned as kernels expect."""
    lines = (",".join(str(byte) for byte in data[i : i + 32]) for i in range(0, len(data), 32))
    body = ",\n".join(lines)
    return f"static _Alignas(64) const unsigned char constant{index}[] = {{\n{body}}};"


def _function(
    host: Host,
    op: ir.Operation,
    name: str,
    arguments: Mapping[IrValue, int],
    donated: frozenset[int] = frozenset(),
) -> tuple[str, float]:
    """Translates a function of the module. Returns the C text, and the most bytes that a call takes from malloc.

    `arguments` maps each argument to its size in bytes, and `donated` has the indices of donated results. The C
    function gets pointers to the arguments and results in arrays.
    """
    function = CFunction(host, donated)
    for i, (argument, size) in enumerate(arguments.items()):
        function.names[argument] = f"((tiduc_buffer){{(unsigned char *)arguments[{i}], {size}}})"
    function.body(op.regions[0])
    lines = "\n  ".join(("int status = 0;", *function.code()))
    code = (
        f"static int {name}(tiduc_pool *pool, const void *const *arguments, void *const *results) {{\n"
        f"  (void)pool, (void)arguments, (void)results;\n  {lines}\nend:\n  return status;\n}}"
    )
    return code, function.heap()


def _entry(interface: Interface, initializers: int, links: bool, prepared: float) -> str:
    """Returns the first public C function, the variant that takes a buffer, and the functions that both need.

    Initializers allocate `prepared` bytes for constants: in a static array, or with malloc if `prepared` is infinite.
    """
    steps = ["tiduc_link()"] if links else []
    steps += [f"initialize{i}(&tiduc_constants, NULL, NULL)" for i in range(initializers)]
    prepare = "".join(f"  if (!status) status = {step};\n" for step in steps)
    taken, given = interface.pointers()
    is_static = 0 < prepared < inf
    memory = f"static unsigned char tiduc_constant_memory[{int(prepared)}];\n" if is_static else ""
    pool = "{NULL, tiduc_constant_memory, sizeof tiduc_constant_memory}" if is_static else "{NULL, NULL, 0}"
    return f"""
{memory}static tiduc_pool tiduc_constants = {pool};

static int tiduc_prepare(void) {{
  static bool ready;
  int status = 0;
  if (ready) return 0;
{prepare}  if (status) tiduc_collect(&tiduc_constants, NULL, 0);
  ready = !status;
  return status;
}}

typedef int (*tiduc_function)(tiduc_pool *, const void *const *, void *const *);

static int tiduc_run(tiduc_function function, const void *const *arguments, void *const *results, void *memory,
                     size_t room) {{
  tiduc_pool pool = {{NULL, (unsigned char *)memory, room}};
  int status = tiduc_prepare();
  if (!status) status = function(&pool, arguments, results);
  tiduc_collect(&pool, NULL, 0);
  return status;
}}

{interface.declaration()} {{
  {run_statement(interface.name, taken, given)}
}}

{interface.declaration_in()} {{
  static unsigned char none;
  {run_statement(interface.name, taken, given, "tiduc_memory ? tiduc_memory : &none, tiduc_memory ? tiduc_size : 0")}
}}
"""
