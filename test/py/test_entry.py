"""Tests which function of a file is loaded: the requested function, `main`, or the only public function.

Some files have nested modules.
"""

import pytest
from harness.compare import compare
from harness.stages import F64

from tiduc.dialect.errors import RequestError
from tiduc.loading import load
from tiduc.program import Program

CUBE = f"""
func.func @main(%x: {F64}) -> {F64} {{
  %0 = stablehlo.multiply %x, %x : {F64}
  %1 = stablehlo.multiply %0, %x : {F64}
  return %1 : {F64}
}}
"""


def value(program: Program) -> object:
    return program.compile(engine="reference")(2.0)


def test_entry() -> None:
    two = CUBE.replace("@main", "@f") + CUBE.replace("@main", "@g").replace("multiply", "add")
    compare(value(load(two, "g").grad()), [3.0])
    compare(value(load(two, "f").grad()), [12.0])
    with pytest.raises(RequestError, match="no public function @main; there are @f, @g"):
        load(two)
    with pytest.raises(RequestError, match="no public function @h; there are @f, @g"):
        load(two, "h")
    assert load(CUBE.replace("@main", "@f")).name == "f"
    assert load(two + CUBE).name == "main"
    with pytest.raises(RequestError, match="the module is empty"):
        load("module {\n}")


def test_entry_in_nested_modules() -> None:
    other = CUBE.replace("multiply", "add").replace("@main", "@other")
    two = f"module @a {{ {CUBE} }}\nmodule @b {{ {CUBE}\n{other} }}"
    compare(value(load(f"module {{ {CUBE} }}").grad()), [12.0])
    compare(value(load(two, "a::main").grad()), [12.0])
    compare(value(load(two, "other").grad()), [3.0])
    names = "there are @a::main, @b::main, @b::other"
    with pytest.raises(RequestError, match=f"several public functions @main; {names}"):
        load(two)
    with pytest.raises(RequestError, match=f"no public function @a::other; {names}"):
        load(two, "a::other")
