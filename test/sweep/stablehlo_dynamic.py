"""Compiles test programs of StableHLO with dynamic shapes, and compares them with the same programs in static shapes.

    python test/sweep/stablehlo_dynamic.py DIRECTORY [--filter REGEX] [--target NAME]

DIRECTORY is `stablehlo/testdata/dynamic` of openxla/stablehlo. Its programs state no expected results. Each dynamic
dimension of the arguments has the size `SIZE`. Programs that JAX exported take sizes as scalar arguments, whose value
is also `SIZE`. Other arguments are random. For the expected results, StableHLO's passes refine a program to static
shapes, and this program is compiled for a CPU. The output has a line for each program, and the counts:

    ok        the values agree; floats may differ by a few units in the last place of the largest element
    refused   tiduc raises an error before it calls the compiler
    rejected  the compiler rejects the program
    wrong     a value differs
    crash     the run fails
    n/a       the refined program has dynamic dimensions, or the refinement fails
"""

import argparse
import re
from collections import Counter
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from counts import summary
from numpy.typing import NDArray
from stablehlo_programs import agree
from torch_mlir import ir

from tiduc.backends.iree import legalize_for_iree
from tiduc.backends.iree.compile import compile_module
from tiduc.backends.iree.targets import find_target
from tiduc.dialect.errors import CompileError, TiducError
from tiduc.dialect.mlir.context import parse, run_passes, stage
from tiduc.runtime.run import Executable

Array = NDArray[Any]

SIZE = 3

_REFINED = (
    "builtin.module(inline,symbol-dce,canonicalize,stablehlo-refine-arguments{{types={}}},stablehlo-refine-shapes,"
    "func.func(stablehlo-canonicalize-dynamism),stablehlo-refine-shapes,canonicalize)"
)


@stage
def arguments(text: str) -> tuple[list[Array], int]:
    """Returns random arguments for the function `main`, and the number of arguments at the beginning that are sizes."""
    module = parse(text)  # the context must outlive its operations
    types = _types(_main(module))
    is_dynamic = any(not type_.has_static_shape for type_ in types)
    i64 = ir.RankedTensorType.get([], ir.IntegerType.get_signless(64))
    count = (
        next((i for i, type_ in enumerate(types) if type_ != i64 or i == 2), len(types)) if is_dynamic else 0
    )
    rng = np.random.default_rng(0)
    return [np.array(SIZE)] * count + [_random(rng, type_) for type_ in types[count:]], count


@stage
def refined(text: str, count: int) -> str | None:
    """Returns the text of the program in static shapes. Its first `count` arguments, the sizes, become constants.

    Returns None if a dimension remains dynamic.
    """
    module = parse(text)
    main = _main(module)
    block, types = main.regions[0].blocks[0], _types(main)
    for x in list(block.arguments)[:count]:
        value = ir.DenseElementsAttr.get(np.array(SIZE))
        constant = ir.Operation.create(
            "stablehlo.constant", [x.type], [], {"value": value}, ip=ir.InsertionPoint.at_block_begin(block)
        )
        x.replace_all_uses_with(constant.result)
    for _ in range(count):
        block.erase_argument(0)
    results = list(ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results)
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types[count:], results))
    for name in ("arg_attrs", "res_attrs"):
        if name in main.attributes:
            del main.attributes[name]
    known = [ir.RankedTensorType.get(_sizes(type_), type_.element_type) for type_ in types[count:]]
    run_passes(module.operation, _REFINED.format(",".join(map(str, known))))
    static = str(module)
    return None if "?" in static else static


def outcome(text: str, target: str) -> tuple[str, str]:
    """Returns the category of a program, and an error or a difference as a detail."""
    given, count = arguments(text)
    try:
        run = _compiled(text, target)
    except CompileError as error:
        return "rejected", str(error)
    except TiducError as error:
        return "refused", str(error)
    try:
        static = refined(text, count)
        if static is None:
            return "n/a", "sizes stay dynamic"
        expected = _compiled(static, "cpu")(*given[count:])
    except TiducError as error:
        return "n/a", str(error)
    try:
        actual = run(*given)
    except TiducError as error:
        return "crash", str(error)
    for x, y in zip(actual, expected, strict=True):
        if x.shape != y.shape or not agree(x, y, "almost"):
            return "wrong", f"{x!r} for {y!r}"
    return "ok", ""


def _compiled(text: str, target: str) -> Executable:
    module = parse(text)
    legalize_for_iree(module, cpu=target.startswith("cpu"), spirv=find_target(target).spirv)
    return Executable(compile_module(stage(str)(module), target, cached=False), target, entry="main")


def _main(module: Any) -> Any:
    functions = [op.operation for op in module.body.operations]
    return next(f for f in functions if ir.StringAttr(f.attributes["sym_name"]).value == "main")


def _types(function: Any) -> list[Any]:
    return list(ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).inputs)


def _sizes(type_: Any) -> list[int]:
    return [n if n >= 0 else SIZE for n in type_.shape]


def _random(rng: np.random.Generator, type_: Any) -> Array:
    """Returns a random array of a type.

    Some integers are negative or large, so that as indices they are out of range.
    """
    sizes, of = _sizes(type_), type_.element_type
    if isinstance(of, ir.ComplexType):
        parts = rng.standard_normal((2, *sizes))
        return (parts[0] + 1j * parts[1]).astype(f"c{of.element_type.width // 4}")
    if isinstance(of, ir.FloatType):
        dtype: Any = ml_dtypes.bfloat16 if of == ir.BF16Type.get() else f"f{of.width // 8}"
        return rng.standard_normal(sizes).astype(dtype)
    if of.width == 1:
        return np.asarray(rng.random(sizes) < 0.5)
    low = 0 if of.is_unsigned else -3
    return rng.integers(low, 9, sizes).astype(f"{'u' if of.is_unsigned else 'i'}{of.width // 8}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--filter", default="")
    parser.add_argument("--target", default="cpu")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for path in sorted(options.directory.rglob("*.mlir")):
        if re.search(options.filter, path.stem):
            category, detail = outcome(path.read_text(), options.target)
            counts[category] += 1
            print(f"{category:9} {path.stem} {detail[:300]}".replace("\n", " ").rstrip(), flush=True)
    print(summary(counts))


if __name__ == "__main__":
    main()
