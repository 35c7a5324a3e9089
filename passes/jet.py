"""jet: the Taylor coefficients of values, given those of inputs.

    F0: p2 = mul a, x               J0: x_1, x_2 = inputs              x(t) = x + x_1 t + x_2 t^2
        p3 = exp p2         ->          u_1 = mul @F0::@a, x_1;  u_2 = mul @F0::@a, x_2
                                        y_1 = mul @F0::@p3, u_1
                                        y_2 = (mul @F0::@p3, 2 u_2 + mul y_1, u_1) / 2

A derivative of order K costs about K^2 times the program, while K nested JVPs cost 3^K times the program.

Source: Griewank, Walther, "Evaluating Derivatives" (2008), chapter 13.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tiduc.dialect.context import stage
from tiduc.dialect.errors import Unsupported
from tiduc.dialect.graph import Value
from tiduc.dialect.view import View
from tiduc.passes.jets import control
from tiduc.passes.jets.series import Series
from tiduc.passes.rules.registry import OpSet


@stage
def jet(
    view: View,
    outputs: Sequence[Any],
    given: Mapping[Value, Sequence[Any | None]],
    order: int,
    opset: OpSet,
    b: Any,
) -> list[list[Any | None]]:
    """The coefficients of orders 0 to `order` of each output, None for zeros."""
    values = view.values(outputs)
    series = Series(view, opset, b, {x: [x, *c] for x, c in given.items()}, control.extend)
    try:
        series.extend(values, order)
    except Unsupported as error:
        raise error.at(b.location) from None
    return [[series.at(y, k) for k in range(order + 1)] for y in values]
