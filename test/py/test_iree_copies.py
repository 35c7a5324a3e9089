"""Programs on IREE do not change their arguments, because an op that updates or sorts an argument gets a copy."""

from functools import cache

import numpy as np
import pytest
from cases.iree_programs import SHIFTED
from harness.one_module import function_of, module_of
from harness.vulkan import skip_without_device
from harness.xla import by_xla

import tiduc
from tiduc.runtime.modules import load

A, R = "tensor<4xf32>", "tensor<3xf32>"
UPDATE = f"stablehlo.dynamic_update_slice %b, %u, %k : ({A}, {R}, tensor<i32>) -> {A}"
SORT = f"""%y = "stablehlo.sort"(%b) <{{dimension = 0 : i64, is_stable = false}}> ({{
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %less = stablehlo.compare LT, %p, %q, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    }}) : ({A}) -> {A}"""
TWO = f"""%y:2 = "stablehlo.sort"(%b, %b) <{{dimension = 0 : i64, is_stable = true}}> ({{
    ^bb0(%p: tensor<f32>, %q: tensor<f32>, %r: tensor<f32>, %s: tensor<f32>):
      %less = stablehlo.compare LT, %p, %q, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    }}) : ({A}, {A}) -> ({A}, {A})"""
SCATTER = f"""%j = stablehlo.reshape %k : (tensor<i32>) -> tensor<1x1xi32>
  %v = stablehlo.slice %u [1:2] : ({R}) -> tensor<1xf32>
  %y = "stablehlo.scatter"(%b, %j, %v) <{{scatter_dimension_numbers = #stablehlo.scatter<
    inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %sum = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %sum : tensor<f32>
    }}) : ({A}, tensor<1x1xi32>, tensor<1xf32>) -> {A}"""
PROGRAMS = {
    "update": ("%b = stablehlo.optimization_barrier %a : " + A, "%y = " + UPDATE, "%y, %a"),
    "of a view": (f"%b = stablehlo.reshape %z : (tensor<2x2xf32>) -> {A}", "%y = " + UPDATE, "%y, %b"),
    "read before": (f"%b = stablehlo.reshape %z : (tensor<2x2xf32>) -> {A}", "%y = " + UPDATE, "%y, %y"),
    "scatter": ("%b = stablehlo.optimization_barrier %a : " + A, SCATTER, "%y, %a"),
    "sort": ("%b = stablehlo.optimization_barrier %a : " + A, SORT, "%y, %a"),
    "sort of one twice": (f"%b = stablehlo.reshape %z : (tensor<2x2xf32>) -> {A}", TWO, "%y#0, %y#1"),
}


def text(name: str) -> str:
    first, second, results = PROGRAMS[name]
    return f"""func.func @main(%a: {A}, %z: tensor<2x2xf32>, %u: {R}, %k: tensor<i32>) -> ({A}, {A}) {{
  {first}
  {second}
  return {results} : {A}, {A}
}}"""


@cache
def compiled(target: str) -> bytes:
    return module_of({name: text(name) for name in PROGRAMS}, target)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("target", ["cpu", "vulkan:llvmpipe"])
def test_arguments_are_not_changed(name: str, target: str) -> None:
    skip_without_device(target)
    arguments = [
        np.array([3, 1, 4, 2], np.float32),
        np.array([[3, 1], [4, 2]], np.float32),
        np.array([7, 8, 9], np.float32),
        np.array(1, np.int32),
    ]
    with load(compiled(target), target) as module:
        given = [module.put(x) for x in arguments]
        results = module[function_of(name)].keep(*given)
        for y, expected in zip(results, by_xla(text(name), arguments), strict=True):
            np.testing.assert_array_equal(y.numpy(), expected)
        for x, expected in zip(given, arguments, strict=True):
            np.testing.assert_array_equal(x.numpy(), expected)


@pytest.mark.parametrize("target", ["cpu", "cpu-threads", "vulkan:llvmpipe"])
def test_rows_that_overlap_are_moved(target: str) -> None:
    """Shifting the rows of an array gives XLA's values.

    A device that copies between overlapping ranges could overwrite elements before it has copied them.
    """
    skip_without_device(target)
    x = np.arange(24, dtype=np.float32).reshape(6, 4)
    (y,) = tiduc.load(SHIFTED).compile(target)(x)
    np.testing.assert_array_equal(y, by_xla(SHIFTED, [x])[0])
