"""Represents calls of StableHLO functions in PyTorch programs. The functions compute what PyTorch's ops cannot.

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
"""Maps the name of a PyTorch type to the name of the StableHLO element type."""

_TYPE = re.compile(r"tensor<((?:[\d?]+x)*)(\w+(?:<\w+>)?)>")


def element(x: torch.Tensor) -> str:
    """The name of the StableHLO element type of a PyTorch tensor. Raises `Unsupported` if it is not in `ELEMENTS`."""
    name = str(x.dtype).removeprefix("torch.")
    if name not in ELEMENTS:
        raise Unsupported(f"tensors of {name} are not supported")
    return ELEMENTS[name]


def call(name: str, operands: Sequence[torch.Tensor], build: Callable[..., Sequence[TextTensor]]) -> Any:
    """Calls a StableHLO function named `name` with the tensors `operands`. Returns a tensor, or a tuple of several.

    `build(body, *arguments)` emits the function's ops and returns the function's results.
    """
    function, arguments = called(name, operands, build)
    return function(*arguments)


def called(
    name: str, operands: Sequence[torch.Tensor], build: Callable[..., Sequence[TextTensor]]
) -> tuple[Any, tuple[Any, ...]]:
    """The PyTorch operator that represents the call, and the operator's arguments. See `call` for the parameters."""
    body = Body([(x.shape, element(x)) for x in operands])
    results = build(body, *body.arguments)
    sizes = [n for y in results for n in y.sizes]
    return operator(len(operands), len(results)), (*operands, sizes, body.function(name, results))


@functools.cache
def operator(operands: int, results: int) -> Any:
    """Defines and returns the PyTorch operator that calls functions with these numbers of operands and results."""
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
