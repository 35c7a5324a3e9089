"""StableHLO functions, as text, inside PyTorch programs. They express ops that PyTorch's other ops cannot.

torch.ops.tiduc.call_1_2(x, sizes, "func.func private @NAME ...")   in the exported program
stablehlo.custom_call @tiduc.torch.tiduc.call(%x) {text = ...}      while torch-mlir's pipelines run
func.call @NAME.7(%x)                                               in the module that torch-mlir returns
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from tiduc.dialect.errors import Unsupported
from tiduc.models.emitted_text import Body, TextTensor
from tiduc.models.torch.ops.framework import torch

ELEMENTS = {
    "bool": "i1",
    "uint8": "ui8",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
}
"""The element type of StableHLO for each type of PyTorch."""

_TYPE = re.compile(r"tensor<((?:[\d?]+x)*)(\w+(?:<\w+>)?)>")


def element(x: torch.Tensor) -> str:
    """The element type of a PyTorch tensor in StableHLO.

    Raises `Unsupported` for types that torch-mlir does not have.
    """
    name = str(x.dtype).removeprefix("torch.")
    if name not in ELEMENTS:
        raise Unsupported(f"tensors of {name} are not supported")
    return ELEMENTS[name]


def call(name: str, operands: Sequence[torch.Tensor], build: Callable[..., Sequence[TextTensor]]) -> Any:
    """The result of a StableHLO function of the tensors `operands`: a tuple if there are several results.

    `build(body, *arguments)` emits the function's ops and returns its results.
    """
    function, arguments = called(name, operands, build)
    return function(*arguments)


def called(
    name: str, operands: Sequence[torch.Tensor], build: Callable[..., Sequence[TextTensor]]
) -> tuple[Any, tuple[Any, ...]]:
    """The operator that `call` calls, and its arguments."""
    body = Body([(x.shape, element(x)) for x in operands])
    results = build(body, *body.arguments)
    sizes = [n for y in results for n in y.sizes]
    return operator(len(operands), len(results)), (*operands, sizes, body.function(name, results))


@functools.cache
def operator(operands: int, results: int) -> Any:
    """The custom PyTorch operator for functions with these numbers of operands and results."""
    name = f"call_{operands}_{results}"
    given = "".join(f"Tensor x{i}, " for i in range(operands))
    types = ", ".join(["Tensor"] * results)
    schema = f"({given}SymInt[] sizes, str text) -> {types if results == 1 else f'({types})'}"

    def run(*arguments: "torch.Tensor | Sequence[int] | str") -> Any:
        raise Unsupported("a function written in StableHLO cannot run in PyTorch")

    def empty(*arguments: Any) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        *_, sizes, text = arguments
        written = _TYPE.findall(text[text.index(") -> (") : text.index("{\n")])
        remaining, tensors = list(sizes), []
        for shape, kind in written:
            rank = shape.count("x")
            dtype = next(key for key, value in ELEMENTS.items() if value == kind)
            tensors.append(torch.empty(remaining[:rank], dtype=getattr(torch, dtype)))
            del remaining[:rank]
        return tensors[0] if results == 1 else tuple(tensors)

    own = torch.library.custom_op(f"tiduc::{name}", run, mutates_args=(), schema=schema)
    own.register_fake(empty)
    return getattr(torch.ops.tiduc, name).default
