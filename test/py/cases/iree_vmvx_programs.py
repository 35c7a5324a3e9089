"""Programs that IREE without tiduc rejects for vmvx, or for which it computes wrong results there.

On CPUs, IREE compiles these programs correctly.
"""

from typing import Any

import numpy as np

from cases.iree_case import INF, NAN, Array

Program = tuple[str, tuple[Array, ...], tuple[Array, ...]]


RESULTS = {("compare GE,", "bool"): "i1", ("is_finite", "bool"): "i1", ("convert", "int32"): "i32"}
"""Maps ops and NumPy types of expected results to element types, if the results have another type than the operands."""


def elementwise(op: str, type_: str, *arguments: Array, expected: Any) -> Program:
    """Returns a program with one elementwise op, its arguments, and its expected results."""
    n = len(arguments[0])
    result = RESULTS.get((op, expected.dtype.name), type_)
    names = ", ".join(f"%x{i}" for i in range(len(arguments)))
    signature = ", ".join(f"%x{i}: tensor<{n}x{type_}>" for i in range(len(arguments)))
    types = ", ".join([f"tensor<{n}x{type_}>"] * len(arguments))
    text = f"""func.func @main({signature}) -> tensor<{n}x{result}> {{
      %0 = stablehlo.{op} {names} : ({types}) -> tensor<{n}x{result}>
      return %0 : tensor<{n}x{result}>
    }}"""
    return text, arguments, (expected,)


BYTES = np.array([0, 1, -1, 127, -128, 7], np.int8)
WORDS = np.array([0, 1, -1, 0x0F0F1234ABCDEF55, -(2**63), 2**40], np.int64)

VMVX = {
    "vmvx/compare": elementwise(
        "compare GE,",
        "f32",
        np.float32([NAN, 1, 2]),
        np.float32([1, NAN, 1]),
        expected=np.array([False, False, True]),
    ),
    "vmvx/convert": elementwise(
        "convert", "f32", np.float32([1.5, -2.5, 0.7, -0.7, 3]), expected=np.array([1, -2, 0, 0, 3], np.int32)
    ),
    "vmvx/is_finite": elementwise(
        "is_finite", "f32", np.float32([NAN, 1, INF]), expected=np.array([False, True, False])
    ),
    "vmvx/leading_zeros": elementwise(
        "count_leading_zeros", "i8", BYTES, expected=np.array([8, 7, 0, 1, 0, 5], np.int8)
    ),
    "vmvx/popcnt": elementwise(
        "popcnt", "i64", WORDS, expected=np.array([int(x & (2**64 - 1)).bit_count() for x in WORDS.tolist()])
    ),
    "vmvx/popcnt_of_bytes": elementwise(
        "popcnt", "i8", BYTES, expected=np.array([0, 1, 8, 7, 1, 3], np.int8)
    ),
    "vmvx/remainder": elementwise(
        "remainder",
        "f32",
        np.float32([5, -5, 7.5, 1]),
        np.float32([3, 3, 2, 4]),
        expected=np.float32([2, -2, 1.5, 1]),
    ),
    "vmvx/shift_right_logical": elementwise(
        "shift_right_logical",
        "i8",
        np.array([-1, -128, 7, -1], np.int8),
        np.array([3, 1, 1, 8], np.int8),
        expected=np.array([31, 64, 3, 0], np.int8),
    ),
    "vmvx/sign": elementwise(
        "sign", "f32", np.float32([2, -3, 0, NAN, -INF]), expected=np.float32([1, -1, 0, NAN, -1])
    ),
}
"""Maps the names of witnesses to programs, arguments and expected results."""
