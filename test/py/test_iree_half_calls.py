"""On CPUs without bf16 instructions, code for bf16 must not call functions that C libraries lack; see `compile.py`."""

from io import BytesIO
from zipfile import ZipFile
from zlib import crc32

import numpy as np
import pytest
from harness.variants import SSE4
from ml_dtypes import bfloat16

import tiduc
from tiduc.backends.iree.compile import compile_module
from tiduc.dialect.errors import TiducError
from tiduc.runtime import Executable

INTEGERS = {
    "i1": np.bool_,
    "i8": np.int8,
    "i32": np.int32,
    "i64": np.int64,
    "ui8": np.uint8,
    "ui64": np.uint64,
}
ROWS = 2**15 + 1


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("shape", ["", "37x"])
def test_integers_to_bf16(kind: str, shape: str) -> None:
    x, y = f"tensor<{shape}{kind}>", f"tensor<{shape}bf16>"
    text = f"""func.func @main(%x: {x}) -> {y} {{
      %0 = stablehlo.convert %x : ({x}) -> {y}
      return %0 : {y}
    }}"""
    sizes = (37,) if shape else ()
    drawn = np.random.default_rng(0).integers(0, 2 if kind == "i1" else 120, sizes).astype(INTEGERS[kind])
    (converted,) = tiduc.load(text).compile(SSE4)(drawn)
    np.testing.assert_array_equal(converted, drawn.astype(bfloat16))


def test_marks_of_bf16() -> None:
    """A scatter of bf16 updates a copy of its operand if the operand is also a result.

    tiduc emits a hidden op, which keeps IREE from merging the copy with the operand.
    """
    x, u = f"tensor<{ROWS}x33xbf16>", "tensor<2x33xbf16>"
    text = f"""func.func @main(%x: {x}, %u: {u}, %i: tensor<2x1xi32>) -> ({x}, {x}) {{
      %y = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<
          update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
          index_vector_dim = 1>}}> ({{
        ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
          %s = stablehlo.add %a, %b : tensor<bf16>
          stablehlo.return %s : tensor<bf16>
      }}) : ({x}, tensor<2x1xi32>, {u}) -> {x}
      return %x, %y : {x}, {x}
    }}"""
    array = np.random.default_rng(0).integers(0, 5, (ROWS, 33)).astype(bfloat16)
    updates = np.ones((2, 33), bfloat16)
    given, updated = tiduc.load(text).compile(SSE4)(array, updates, np.array([[3], [ROWS - 1]], np.int32))
    np.testing.assert_array_equal(given, array)
    array[[3, ROWS - 1]] += 1
    np.testing.assert_array_equal(updated, array)


def test_a_missing_function_is_an_error() -> None:
    """Loading a module that calls an unknown C function raises TiducError instead of ending the process."""
    text = """func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
      %0 = stablehlo.sine %x : tensor<4xf64>
      return %0 : tensor<4xf64>
    }"""
    module = compile_module(text, SSE4)  # without tiduc's rewrites, the code calls sin
    with ZipFile(BytesIO(module)) as archive:
        library = next(archive.read(part) for part in archive.infolist() if part.filename.endswith(".so"))
    unknown = library.replace(b"\0sin\0", b"\0six\0")
    assert unknown != library
    module = module.replace(library, unknown)
    sums = [crc32(code).to_bytes(4, "little") for code in (library, unknown)]
    with pytest.raises(TiducError, match="a function that this machine lacks"):
        Executable(module.replace(*sums), SSE4)
