"""calibrate: measures how fast compiled programs move memory and compute on this machine.

Each rate is measured with two programs, one of which repeats an op more often. Calls and copies take equally long in
both programs, so the difference of the two times is the time of the additional repetitions. The time of a launch is
measured with a loop that gathers several rows. Such a loop does not become a kernel, so the host runs the loop and
launches its ops (`dialect/control/small_loops.py`).
"""

import time
from collections.abc import Callable

import numpy as np

from tiduc.dialect.facts.rates import Rates
from tiduc.loading import load

_FEW, _MANY = 1, 9  # the numbers of repetitions in the two programs
_CALLS = 5
_COPIED, _WIDTH, _MAPPED = 2**23, 512, 2**18  # the sizes of the f32 vectors and the square matrix
_FEW_ITERATIONS, _MANY_ITERATIONS = 100, 2100


def calibrate(target: str = "cpu") -> Rates:
    """Measures the rates of the device that runs modules for this target. Raises the errors of `Program.compile`."""
    width, copied, mapped = f"{_WIDTH}x{_WIDTH}", str(_COPIED), str(_MAPPED)
    return Rates(
        bytes=float(f"{8 * _COPIED / _seconds(target, _copy, copied):.3g}"),
        flops=float(f"{2 * _WIDTH**3 / _seconds(target, _product, width):.3g}"),
        functions=float(f"{_MAPPED / _seconds(target, _function, mapped):.3g}"),
        launches=float(f"{1 / _seconds_of_iteration(target):.3g}"),
    )


def _copy(i: int, type_: str) -> str:
    """Writes op `i`, a negation that reads and writes an array.

    A barrier before the op prevents its fusion with op `i - 1`.
    """
    return f"""  %b{i} = stablehlo.optimization_barrier %x{i} : {type_}
  %x{i + 1} = stablehlo.negate %b{i} : {type_}
"""


def _product(i: int, type_: str) -> str:
    types = f"({type_}, {type_}) -> {type_}"
    return f"  %x{i + 1} = stablehlo.dot_general %x{i}, %x0, contracting_dims = [1] x [0] : {types}\n"


def _function(i: int, type_: str) -> str:
    return f"""  %n{i} = stablehlo.negate %x{i} : {type_}
  %x{i + 1} = stablehlo.exponential %n{i} : {type_}
"""


def _seconds(target: str, repeated: Callable[[int, str], str], shape: str) -> float:
    """Returns the time, in seconds, of one repetition of the ops that `repeated` writes."""
    type_ = f"tensor<{shape}xf32>"
    sizes = [int(n) for n in shape.split("x")]
    x = (np.random.default_rng(0).standard_normal(sizes) / np.sqrt(sizes[0])).astype(np.float32)
    calls = []
    for count in (_FEW, _MANY):
        body = "".join(repeated(i, type_) for i in range(count))
        text = f"func.func @main(%x0: {type_}) -> {type_} {{\n{body}  return %x{count} : {type_}\n}}\n"
        calls.append(load(text).compile(target))
    few, many = (min(_timed(call, x) for _ in range(_CALLS)) for call in calls)
    return max(many - few, 1e-9) / (_MANY - _FEW)


def _seconds_of_iteration(target: str) -> float:
    """Returns the time, in seconds, of one iteration of a loop that the host runs. Each iteration launches one op."""
    x, rows = np.arange(8, dtype=np.float32).reshape(2, 4), np.array([1, 0], np.int32)
    calls = [load(_LOOP % count).compile(target) for count in (_FEW_ITERATIONS, _MANY_ITERATIONS)]
    few, many = (min(_timed(call, x, rows) for _ in range(_CALLS)) for call in calls)
    return max(many - few, 1e-9) / (_MANY_ITERATIONS - _FEW_ITERATIONS)


_LOOP = """func.func @main(%%x: tensor<2x4xf32>, %%rows: tensor<2xi32>) -> tensor<2x4xf32> {
  %%zero = stablehlo.constant dense<0> : tensor<i32>
  %%one = stablehlo.constant dense<1> : tensor<i32>
  %%count = stablehlo.constant dense<%d> : tensor<i32>
  %%r:2 = stablehlo.while(%%k = %%zero, %%y = %%x) : tensor<i32>, tensor<2x4xf32>
  cond {
    %%c = stablehlo.compare LT, %%k, %%count : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %%c : tensor<i1>
  } do {
    %%z = "stablehlo.gather"(%%y, %%rows) {
      dimension_numbers = #stablehlo.gather<
        offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
      slice_sizes = array<i64: 1, 4>} : (tensor<2x4xf32>, tensor<2xi32>) -> tensor<2x4xf32>
    %%next = stablehlo.add %%k, %%one : tensor<i32>
    stablehlo.return %%next, %%z : tensor<i32>, tensor<2x4xf32>
  }
  return %%r#1 : tensor<2x4xf32>
}
"""
"""A program with a loop that swaps two rows in each iteration. `%d` stands for the number of iterations."""


def _timed(call: Callable[..., object], *arguments: object) -> float:
    started = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - started
