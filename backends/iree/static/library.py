"""compile_library: compiles a program to an object file with the kernels, a C file with the host code, and a header.

int predict(const float *x, float *y);     // returns 0, or 1 if memory ran out, or 2 if a kernel failed
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files

from iree.compiler import ir
from torch_mlir import ir as mlir

from tiduc.backends.backend import LOOPS, Lowered, Options
from tiduc.backends.iree.build import build_objects
from tiduc.backends.iree.modules.ops import IrValue
from tiduc.backends.iree.static.header import C_TYPES, Interface, donations, header_of, is_c_name, roles
from tiduc.backends.iree.static.host import CFunction, Host, global_name
from tiduc.backends.iree.static.state import State
from tiduc.backends.iree.targets import find_target
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.functions import functions_in
from tiduc.dialect.mlir.resources import contents_by_name


@dataclass(frozen=True)
class Library:
    """A static library: the kernels as an object file, the host code that calls them, and its header, in C11."""

    kernels: bytes
    host: str
    header: str


def compile_library(program: Lowered, name: str, options: Options, flags: Sequence[str] = ()) -> Library:
    """Compiles a program to a static library with a C function called `name`.

    `flags` are further flags of iree-compile.

    Raises `RequestError` for targets without static libraries, for dynamic shapes, and for names that are not C names.
    Raises `CompileError` if IREE's compiler or the translation of the host code refuses the program.
    """
    target = find_target(options.target)
    if not any(flag.endswith("=llvm-cpu") for flag in target.flags):
        raise RequestError(f"target {target.name!r} has no static libraries: IREE writes them for CPUs only")
    if not is_c_name(name):
        raise RequestError(f"{name!r} cannot name a function in C: choose another name for the output")
    if options.lapack != LOOPS:
        raise RequestError("a static library cannot call LAPACK back: it has no host with NumPy")
    for value in (*program.signature.inputs, *program.signature.outputs):
        if None in value.type.shape:
            raise RequestError(f"{value} has a dynamic shape, and a static library needs static shapes")
        if value.type.element not in C_TYPES:
            raise RequestError(f"C has no type for the elements of {value}")
    interface = Interface(name, program.signature, donations(program), roles(program))
    objects = build_objects(_renamed(program, name), options, flags)
    query = re.search(r"\w+_library_query", objects.header)
    assert query is not None
    host, heap = _host_code(objects.text, f"@{name}", query[0], interface)
    state = State(interface)
    structs = state.declarations() if state.exists else ""
    return Library(objects.kernels, host, header_of(interface, heap, structs))


def _renamed(program: Lowered, name: str) -> Lowered:
    """The program with its module and its function renamed to `name`.

    IREE's symbols contain one of the two names, which must be distinct if several libraries are linked.
    """
    module = program.module.operation.clone().operation
    function = functions_in(module)[0]
    with module.context:
        module.attributes["sym_name"] = mlir.StringAttr.get(name)
        function.attributes["sym_name"] = mlir.StringAttr.get(name)
    return replace(program, module=module, name=name)


# ---- the C files -----------------------------------------------------------------------------------------------


def _host_code(text: bytes, program: str, query: str, interface: Interface) -> tuple[str, int | None]:
    """The C file, and the most bytes that a call takes from malloc; None if unknown."""
    name = interface.name
    with ir.Context() as context:
        module = ir.Module.parse(text, context)
        operations = [o.operation for o in module.body.operations]
        exports = {key: op for executable in operations for key, op in _exports(executable)}
        host = Host(
            program,
            exports,
            resources=contents_by_name(text.decode("utf-8", "surrogateescape")),
            donated=frozenset(interface.donated.values()),
        )
        initializers: list[str] = []
        functions: list[str] = []
        variables: list[str] = []
        for op in operations:
            if op.name == "util.initializer":
                initializers.append(_function(host, op, f"initialize{len(initializers)}", ()))
            elif op.name == "util.func" and op.attributes["sym_visibility"].value == "public":
                arguments = op.regions[0].blocks[0].arguments
                functions.append(_function(host, op, "call", tuple(arguments)))
            elif op.name == "util.global" and "!hal.device" not in str(op.attributes["type"]):
                variables.append(f"static tiduc_buffer {global_name(op.attributes['sym_name'].value)};")
            elif op.name not in ("util.global", "hal.executable"):
                raise host.refuse(op.name)
        if len(functions) != 1:
            raise host.refuse("a module of several functions")
    code = "\n".join(
        (
            f"// {name}: host code that tiduc wrote; {name}.o has the kernels.",
            f'#include "{name}.h"\n\n#include <stdbool.h>\n#include <stddef.h>\n#include <string.h>\n',
            _shared("prelude.c"),
            f"const void *{query}(uint32_t version, const tiduc_environment *environment);",
            f"#define TIDUC_QUERY {query}",
            f"static const char *const tiduc_names[] = {{{', '.join(_quoted(k) for k in host.called) or '0'}}};",
            _shared("dispatch.c") if host.called else "",
            *(_array(i, data) for i, data in enumerate(host.constants)),
            *variables,
            *initializers,
            *functions,
            _entry(interface, len(initializers), bool(host.called)),
            *((state.definitions(), _shared("state.c")) if (state := State(interface)).exists else ()),
        )
    )
    return code, host.heap


def _shared(file: str) -> str:
    return files("tiduc.backends.iree.static").joinpath(file).read_text(encoding="utf-8")


def _exports(executable: ir.Operation) -> Iterator[tuple[str, ir.Operation]]:
    """The names and exports (`hal.executable.export`) of a `hal.executable`; no items for other ops."""
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
    """A constant as a C array, aligned as kernels expect."""
    lines = (",".join(str(byte) for byte in data[i : i + 32]) for i in range(0, len(data), 32))
    body = ",\n".join(lines)
    return f"static _Alignas(64) const unsigned char constant{index}[] = {{\n{body}}};"


def _function(host: Host, op: ir.Operation, name: str, arguments: tuple[IrValue, ...]) -> str:
    """A function of the module as a C function; `arguments` and `results` are pointers to the arrays."""
    function = CFunction(host)
    for i, argument in enumerate(arguments):
        function.names[argument] = f"((tiduc_buffer){{(unsigned char *)arguments[{i}], 0}})"
    function.body(op.regions[0])
    function.count_heap()
    lines = "\n  ".join(("int status = 0;", *function.code()))
    return (
        f"static int {name}(tiduc_pool *pool, const void *const *arguments, void *const *results) {{\n"
        f"  (void)pool, (void)arguments, (void)results;\n  {lines}\nend:\n  return status;\n}}"
    )


def _entry(interface: Interface, initializers: int, links: bool) -> str:
    steps = ["tiduc_link()"] if links else []
    steps += [f"initialize{i}(&tiduc_constants, NULL, NULL)" for i in range(initializers)]
    prepare = "".join(f"  if (!status) status = {step};\n" for step in steps)
    taken, given = interface.pointers()
    return f"""
static tiduc_pool tiduc_constants;

static int tiduc_prepare(void) {{
  static bool ready;
  int status = 0;
  if (ready) return 0;
{prepare}  if (status) tiduc_collect(&tiduc_constants, NULL, 0);
  ready = !status;
  return status;
}}

{interface.declaration()} {{
  tiduc_pool pool = {{NULL}};
  int status = tiduc_prepare();
  const void *const arguments[] = {{{", ".join(taken) or "NULL"}}};
  void *const results[] = {{{", ".join(given) or "NULL"}}};
  if (!status) status = call(&pool, arguments, results);
  tiduc_collect(&pool, NULL, 0);
  return status;
}}
"""
