"""Compiles several programs to one module, because IREE takes at least a second for each module.

`compiled_together` compiles each program to a separate function. Each further function takes IREE a quarter of a
second. `joined` therefore merges several programs into one function. This is used for programs whose ops compile to the
same code in any function. `compiled_as_one` compiles the merged function. `Programs` collects the programs of all tests
in a file for this purpose.

A program with loops requires a separate module or `kernels=True`. Otherwise, all programs of the module would be
compiled without kernels for loops if IREE rejects one of the kernels.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from tiduc.backends.backend import Lowered, Options
from tiduc.backends.iree.build import build
from tiduc.backends.iree.compile import compile_source
from tiduc.backends.iree.prepare import Prepared
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.mlir.context import parse, stage
from tiduc.loading import load
from tiduc.program import Program
from tiduc.runtime.run import Executable


def compiled_together(
    texts: Mapping[str, str], target: str = "cpu", kernels: bool = False, fast: bool = True
) -> dict[str, Executable]:
    """Compiles StableHLO programs to functions of one module, with all passes. Maps each name to its function.

    With `kernels`, this raises `CompileError` if IREE rejects a loop as a kernel. `fast=False` turns off rewrites that
    only make programs faster.
    """
    vmfb = module_of(texts, target, kernels, fast)
    return {name: Executable(vmfb, target, entry=function_of(name)) for name in texts}


def module_of(
    texts: Mapping[str, str], target: str = "cpu", kernels: bool = False, fast: bool = True
) -> bytes:
    """Compiles StableHLO programs to functions of one module, and returns the bytes of the module."""
    programs = {function_of(name): load(text) for name, text in texts.items()}
    first = next(iter(programs))
    lowered = Lowered(_joined(programs), programs[first].signature, first)
    return _compiled(lowered, Options(target, fast=fast), kernels)


def _compiled(program: Lowered, options: Options, kernels: bool) -> bytes:
    """Compiles a program. With `kernels`, only the first attempt is tried, in which loops are kernels."""
    return (
        compile_source(next(Prepared(program, options).applicable())) if kernels else build(program, options)
    )


def selected(request: pytest.FixtureRequest, test: str, **parameters: Any) -> set[str]:
    """Returns the values of the parameter `name` in the cases of a test that run in this session.

    Only cases with these `parameters` are included. Programs of cases that `-k` or a sample leaves out are then not
    compiled.
    """
    return {
        item.callspec.params["name"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.originalname == test
        and item.path == request.path
        and parameters.items() <= item.callspec.params.items()
    }


def function_of(name: str) -> str:
    """Returns the name of the function in the module for the program `name`."""
    return "program_" + re.sub(r"\W", "_", name)


@stage
def _joined(programs: Mapping[str, Program]) -> Any:
    """Returns a module with one function for each program. The keys are the names of the functions."""
    joined = ir.Module.create(ir.Location.unknown())
    for symbol, program in programs.items():
        (function,) = operations(program.module.body)
        copy = function.clone().operation
        copy.attributes["sym_name"] = ir.StringAttr.get(symbol)
        joined.body.append(copy)
    return joined


Call = Callable[..., tuple[NDArray[Any], ...]]
"""A function with arrays as arguments and results."""

Given = tuple[str, Sequence[NDArray[Any]]]
"""A StableHLO program with static sizes and its arguments."""

Results = tuple[Sequence[NDArray[Any]], tuple[NDArray[Any], ...]]
"""The arguments and the results of a program."""


@dataclass(frozen=True)
class Joined:
    """Several programs that are compiled to one function.

    A call of one program runs all of them. The arguments of the other programs are in `examples`.
    """

    run: Executable
    examples: Mapping[Any, Sequence[NDArray[Any]]]
    """Maps each program to example arguments. Programs are in the order of the function's arguments."""
    counts: Sequence[tuple[int, int]]
    """The number of arguments and the number of results of each program."""

    def __getitem__(self, name: Any) -> Call:
        return lambda *arguments: self._all({**self.examples, name: arguments})[name]

    @cached_property
    def results(self) -> dict[Any, tuple[NDArray[Any], ...]]:
        """The results of all programs for the example arguments."""
        return self._all(self.examples)

    def _all(self, arguments: Mapping[Any, Sequence[NDArray[Any]]]) -> dict[Any, tuple[NDArray[Any], ...]]:
        results = iter(self.run(*(x for some in arguments.values() for x in some)))
        return {name: tuple(islice(results, n)) for name, (_, n) in zip(arguments, self.counts, strict=True)}


def compiled_as_one(
    programs: Mapping[Any, str | Given], kernels: bool = False, target: str = "cpu"
) -> Joined:
    """Compiles StableHLO programs with static sizes to one function, with all passes.

    If a program is given as text only, its example arguments are zeros. With `kernels`, this raises `CompileError` if
    IREE rejects a loop as a kernel.
    """
    given = {name: (each, None) if isinstance(each, str) else each for name, each in programs.items()}
    text, counts = joined(_function(text, f"program_{i}") for i, (text, _) in enumerate(given.values()))
    run = Executable(_compiled(load(text).lower(), Options(target), kernels), target)
    zeros = iter([np.zeros(port.type.shape, port.type.dtype) for port in run.signature.inputs])
    examples = [list(islice(zeros, count)) for count, _ in counts]
    for i, (_, arguments) in enumerate(given.values()):
        examples[i] = examples[i] if arguments is None else arguments
    return Joined(run, dict(zip(given, examples, strict=True)), counts)


@dataclass(frozen=True)
class Programs:
    """The programs of the tests in one file, compiled to one function for each target."""

    of_tests: dict[str, Callable[..., Mapping[str, Given]]] = field(default_factory=dict)
    """Maps the name of a test to a function that returns the programs of a case.

    The arguments of the function are the parameters of the case. The parameter `target` is the target of the programs,
    which is `cpu` if the case has no such parameter.
    """

    def of_test(self, programs: Callable[..., Mapping[str, Given]]) -> Callable[..., Mapping[str, Given]]:
        """Registers the programs of a test. The decorated function has the name of the test without `test_`."""
        self.of_tests[f"test_{programs.__name__}"] = programs
        return programs

    def results(self, request: pytest.FixtureRequest) -> dict[str, dict[str, Results]]:
        """Maps the names of the cases that run, and of their programs, to the arguments and results."""
        by_target: dict[str, dict[tuple[str, str], Given]] = {}
        for item in request.session.items:
            if (
                isinstance(item, pytest.Function)
                and item.path == request.path
                and item.originalname in self.of_tests
            ):
                parameters = item.callspec.params if hasattr(item, "callspec") else {}
                programs = self.of_tests[item.originalname](**parameters)
                of_target = by_target.setdefault(parameters.get("target", "cpu"), {})
                of_target |= {(item.name, name): given for name, given in programs.items()}
        results: dict[str, dict[str, Results]] = {}
        for target, of_target in by_target.items():
            for (test, name), values in compiled_as_one(of_target, target=target).results.items():
                results.setdefault(test, {})[name] = of_target[test, name][1], values
        return results


def _function(text: str, name: str) -> str:
    """Returns the text of a program's function `main` with a new name. All calls are inlined."""
    module = str(load(text, inline=True))
    return module[module.index("func.func") : module.rindex("}")].replace("@main", f"@{name}")


@stage
def joined(functions: Iterable[str]) -> tuple[str, list[tuple[int, int]]]:
    """Returns the text of a module whose function `main` calls all functions.

    Also returns the number of arguments and the number of results of each function.
    """
    text = "\n".join(functions)
    parameters, lines, results, counts = [], [], [], {}
    for function in operations(parse(text).body):
        type_ = ir.TypeAttr(function.attributes["function_type"]).value
        name = ir.StringAttr(function.attributes["sym_name"]).value
        names = [f"%x{len(parameters) + i}" for i in range(len(type_.inputs))]
        parameters += [f"{x}: {t}" for x, t in zip(names, type_.inputs, strict=True)]
        own = [(f"%y{len(results) + i}", str(t)) for i, t in enumerate(type_.results)]
        lines.append(f"{', '.join(y for y, _ in own)} = func.call @{name}({', '.join(names)}) : {type_}")
        results, counts[name] = results + own, (len(names), len(own))
    values, types = (", ".join(some) for some in zip(*results, strict=True))
    body = "\n".join([*lines, f"return {values} : {types}"])
    module = parse(f"{text}\nfunc.func @main({', '.join(parameters)}) -> ({types}) {{\n{body}\n}}")
    for function in operations(module.body):
        if ir.StringAttr(function.attributes["sym_name"]).value in counts:
            function.attributes["sym_visibility"] = ir.StringAttr.get("private")
    PassManager.parse("builtin.module(inline,symbol-dce)").run(module.operation)
    return str(module), list(counts.values())
