"""Compiles several programs to one module: IREE's compiler takes about a second for a module, however small it is.

A program with loops is compiled alone, or with others as `kernels`: if IREE rejects one loop as a kernel, it would
compile all programs of the module without kernels.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from torch_mlir import ir

from tiduc.backends.backend import Lowered, Options
from tiduc.backends.iree.compile import compile_source
from tiduc.backends.iree.prepare import source_of
from tiduc.dialect.context import stage
from tiduc.dialect.graph import operations
from tiduc.program import Program, load
from tiduc.runtime.run import Executable


def compiled_together(
    texts: Mapping[str, str], target: str = "cpu", kernels: bool = False
) -> dict[str, Executable]:
    """Compiled StableHLO programs, by name: functions of one module, which went through all passes of the backend.

    With `kernels`, `CompileError` if IREE rejects a loop as a kernel.
    """
    vmfb = module_of(texts, target, kernels)
    return {name: Executable(vmfb, target, entry=function_of(name)) for name in texts}


def module_of(texts: Mapping[str, str], target: str = "cpu", kernels: bool = False) -> bytes:
    """The module of `compiled_together`."""
    programs = {function_of(name): load(text) for name, text in texts.items()}
    first = next(iter(programs))
    lowered = Lowered(_joined(programs), programs[first].signature, first)
    source = source_of(lowered, Options(target))
    return compile_source(replace(source, otherwise=None) if kernels else source)


def selected(request: pytest.FixtureRequest, test: str) -> set[str]:
    """The values of `name` in the cases of a test of this file that run: with `-k`, other cases are not compiled."""
    return {
        item.callspec.params["name"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == test and item.path == request.path
    }


def function_of(name: str) -> str:
    """The function for the program `name` in a module."""
    return "program_" + re.sub(r"\W", "_", name)


@stage
def _joined(programs: Mapping[str, Program]) -> Any:
    """A module with the function of each program, under its name in `programs`."""
    joined = ir.Module.create(ir.Location.unknown())
    for symbol, program in programs.items():
        (function,) = operations(program.module.body)
        copy = function.clone().operation
        copy.attributes["sym_name"] = ir.StringAttr.get(symbol)
        joined.body.append(copy)
    return joined
