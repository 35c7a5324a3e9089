"""Compiles many random programs together on XLA, IREE or the reference interpreter.

`COMPILERS[name](texts, arguments)` compiles all programs, and returns a function that runs them. XLA and IREE compile
the programs as one module. This is faster, because compilation takes most of the time, and most of its time does not
depend on the size of the module.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch_mlir import ir

from tiduc.dialect.mlir.context import parse, run_passes, stage

Array = NDArray[Any]
Arguments = Sequence[Sequence[Array]]
"""The arguments of each program."""
Compiled = Callable[[Arguments], list[tuple[Array, ...]]]
"""A function from the arguments of all programs to the results of all programs."""

_LEGAL = "func.func(chlo-legalize-to-stablehlo,stablehlo-legalize-deprecated-ops{fail-on-unused=false})"
_SECONDS = 200.0  # the time limit of IREE's compiler


def places(arguments: Arguments) -> list[list[int]]:
    """Returns, for each program, the indices of its arguments in the list `distinct(arguments)`.

    A function and its derivatives share arguments. If these are one argument of the module, IREE and XLA compute common
    primal values once, which saves a third of the compile time.
    """
    index: dict[int, int] = {}
    return [[index.setdefault(id(x), len(index)) for x in each] for each in arguments]


def distinct(arguments: Arguments) -> list[Array]:
    """Returns the distinct arrays among the arguments of all programs, in the order of the first use."""
    return list({id(x): x for each in arguments for x in each}.values())


@stage
def merged(texts: Sequence[str], where: Sequence[Sequence[int]], passes: str = "") -> str:
    """Returns the text of a module whose function `main` calls the functions `main` of all texts.

    `where` has, for each argument of each program, the index of an argument of the new function `main`.
    """
    taken: dict[int, str] = {}
    types: list[str] = []
    lines: list[str] = []
    names: list[str] = []
    parts: list[str] = []
    for k, (text, indices) in enumerate(zip(texts, where, strict=True)):
        module = parse(text)
        type_ = _renamed(module, f"p{k}_")
        operands = [f"%a{i}" for i in indices]
        taken |= {i: f"%a{i}: {t}" for i, t in zip(indices, type_.inputs, strict=True)}
        count = len(type_.results)
        left = f"%r{k}:{count} = " if count > 1 else f"%r{k} = "
        results = ", ".join(map(str, type_.results))
        inputs = ", ".join(map(str, type_.inputs))
        lines.append(f"{left}func.call @p{k}_main({', '.join(operands)}) : ({inputs}) -> ({results})")
        names += [f"%r{k}#{i}" for i in range(count)] if count > 1 else [f"%r{k}"]
        types += map(str, type_.results)
        parts += [str(op) for op in module.body.operations]
    body = "\n".join([*lines, f"return {', '.join(names)} : {', '.join(types)}"])
    text = (
        f"func.func @main({', '.join(taken.values())}) -> ({', '.join(types)}) {{\n{body}\n}}\n"
        + "\n".join(parts)
    )
    whole = parse(text)
    run_passes(whole.operation, f"builtin.module({passes})")
    return str(whole)


def _renamed(module: Any, prefix: str) -> Any:
    """Adds a prefix to the names of a module's functions, and makes them private. Returns the type of `main`."""
    type_ = None
    for op in module.body.operations:
        name = ir.StringAttr(op.attributes["sym_name"]).value
        if name == "main":
            type_ = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
            for side in ("arg_attrs", "res_attrs"):
                if side in op.attributes:
                    del op.attributes[side]
        new = ir.StringAttr.get(prefix + name)
        ir.SymbolTable.replace_all_symbol_uses(name, new.value, module.operation)
        op.attributes["sym_name"] = new
        op.attributes["sym_visibility"] = ir.StringAttr.get("private")
    return type_


def _by_function(results: Iterable[Array], counts: Sequence[int]) -> list[tuple[Array, ...]]:
    """Divides the results of all programs. `counts` has the number of results of each program."""
    remaining = iter(results)
    return [tuple(islice(remaining, count)) for count in counts]


@stage
def _count(text: str) -> int:
    """Returns the number of results of the function `main`."""
    for op in parse(text).body.operations:
        if ir.StringAttr(op.attributes["sym_name"]).value == "main":
            return len(ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value).results)
    raise ValueError("no function main")


def _static(texts: Sequence[str], arguments: Arguments) -> list[str]:
    """Returns the texts, refined to static shapes: dynamic dimensions get the sizes of the arguments."""
    from harness.dynamic_shapes import refined

    return [refined(t, x) if "?" in t else t for t, x in zip(texts, arguments, strict=True)]


def by_xla(texts: Sequence[str], arguments: Arguments) -> Compiled:
    """Compiles all programs as one module with XLA."""
    import jax
    from jax._src import xla_bridge  # JAX has no public way to compile StableHLO text
    from jaxlib import xla_client
    from jaxlib.cpu import _lapack

    _lapack.initialize()  # JAX calls this function when it emits a call of LAPACK
    client = xla_bridge.get_backend("cpu")
    text = merged(_static(texts, arguments), places(arguments), _LEGAL)
    devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
    executable = client.compile_and_load(text, devices, xla_client.CompileOptions())
    counts = [_count(text) for text in texts]

    def call(given: Arguments) -> list[tuple[Array, ...]]:
        with jax.enable_x64(True):
            buffers = jax.device_put(distinct(given))
            results = executable.execute_sharded(buffers).disassemble_into_single_device_arrays()
        return _by_function((np.asarray(x[0]) for x in results), counts)

    return call


def by_iree(texts: Sequence[str], arguments: Arguments) -> Compiled:
    """Compiles all programs as one module with IREE, as `tiduc compile` does."""
    import tiduc
    from tiduc.runtime.process import Limits

    program = tiduc.load(merged(texts, places(arguments), "inline,symbol-dce,cse"))
    run = program.compile("cpu", limits=Limits(seconds=_SECONDS), cached=False)
    counts = [_count(text) for text in texts]

    def call(given: Arguments) -> list[tuple[Array, ...]]:
        return _by_function(map(np.asarray, run(*distinct(given))), counts)

    return call


def by_reference(texts: Sequence[str], arguments: Arguments) -> Compiled:
    """Prepares each program for StableHLO's reference interpreter, or for XLA if the interpreter cannot run an op."""
    from harness.xla import chosen

    from tiduc.backends.reference.interpreter import Interpreted

    passes = f"{_LEGAL},inline,symbol-dce"
    static = _static(texts, arguments)
    static = [merged([t], places([x]), passes) for t, x in zip(static, arguments, strict=True)]
    ways = [chosen(text) for text in static]
    ready = [None if way else Interpreted(text) for way, text in zip(ways, static, strict=True)]

    def call(given: Arguments) -> list[tuple[Array, ...]]:
        each = zip(static, ways, ready, given, strict=True)
        return [way(text, x) if way else run(x) for text, way, run, x in each]  # type: ignore[misc]

    return call


COMPILERS: dict[str, Callable[[Sequence[str], Arguments], Compiled]] = {
    "xla": by_xla,
    "iree": by_iree,
    "reference": by_reference,
}
