"""calibrate: measures how fast compiled programs move memory and compute on this machine.

Each rate follows from two programs, one of which repeats an op more often: the difference of their times is that of the
further repetitions, without the time of a call and of its copies.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tiduc.dialect.rates import Rates
from tiduc.program import load

_FEW, _MANY = 1, 9  # repetitions
_CALLS = 5
_COPIED, _WIDTH, _MAPPED = 2**23, 512, 2**18  # elements, of f32


def calibrate(target: str = "cpu") -> Rates:
    """The rates of the device that runs modules for this target; errors are those of `Program.compile`."""
    width, copied, mapped = f"{_WIDTH}x{_WIDTH}", str(_COPIED), str(_MAPPED)
    return Rates(
        bytes=float(f"{8 * _COPIED / _seconds(target, _copy, copied):.3g}"),
        flops=float(f"{2 * _WIDTH**3 / _seconds(target, _product, width):.3g}"),
        functions=float(f"{_MAPPED / _seconds(target, _function, mapped):.3g}"),
    )


def _copy(i: int, type_: str) -> str:
    """An op that reads and writes an array; the barrier keeps it apart from the next one."""
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
    """The time of one repetition."""
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


def _timed(call: Callable[..., Any], x: Any) -> float:
    started = time.perf_counter()
    call(x)
    return time.perf_counter() - started
