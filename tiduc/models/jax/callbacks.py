"""Replaces calls of Python functions in JAX functions, because a program cannot call Python.

    eqx.error_if(x, pred, "message")     becomes x where pred is false, else NaN; the callback would raise an exception
    jax.debug.print("{}", x)             is dropped; the callback has no results
    jax.pure_callback(f, type, x)        raises `Unsupported`, because only Python can compute f

Remarks say which callbacks were replaced or dropped.
"""

import functools
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tiduc.dialect.errors import TiducRemark, Unsupported
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.models.jax.derivative_functions import LoweringRules

if TYPE_CHECKING:
    from jax.interpreters import mlir as lowering

_RAISING = ("equinox._errors",)
"""The modules of callbacks that raise an exception when they are called. Their results are never read."""


@functools.cache
def _primitives(jax: ModuleType) -> tuple[tuple[Any, bool], ...]:
    """Pairs of a callback primitive of JAX, and whether the primitive has no results."""
    from jax.experimental import io_callback

    functions = {
        lambda x: jax.debug.print("{}", x): True,
        lambda x: jax.debug.callback(lambda _: None, x): True,
        lambda x: jax.pure_callback(lambda y: y, x, x): False,
        lambda x: io_callback(lambda y: y, x, x): False,
    }
    return tuple(
        [
            (jax.make_jaxpr(call)(np.float32(0)).eqns[0].primitive, silent)
            for call, silent in functions.items()
        ]
    )


class Callbacks:
    """Lowering rules of JAX's callbacks. `remarks` has a text for each kind of callback that the rules changed."""

    def __init__(self) -> None:
        self.remarks: dict[str, None] = {}

    def lowering_rules(self, jax: ModuleType) -> LoweringRules:
        """Pairs of a callback primitive of JAX and its lowering rule."""
        return tuple(
            [(primitive, self._silent if silent else self._called) for primitive, silent in _primitives(jax)]
        )

    def warn(self) -> None:
        """Issues the remarks."""
        for text in self.remarks:
            warnings.warn(text, TiducRemark, stacklevel=3)

    def _silent(self, ctx: "lowering.LoweringRuleContext", *_: IrValue, **__: object) -> list[IrValue]:
        self.remarks["the prints and debugging callbacks of the function are left out"] = None
        return []

    def _called(
        self,
        ctx: "lowering.LoweringRuleContext",
        *operands: IrValue,
        callback: object,
        **_: object,
    ) -> object:
        from jax.interpreters import mlir

        function = getattr(callback, "callback_func", callback)
        if getattr(function, "__module__", "") not in _RAISING:
            name = getattr(function, "__qualname__", repr(function))
            raise Unsupported(
                f"the function calls back the Python function {name}, which a program cannot contain; "
                "replace the callback by functions of JAX, and switch off progress meters"
            )
        self.remarks[
            "where the function would raise an exception because of a value, such as max_steps reached, "
            "the program gives NaN"
        ] = None

        def filled(*_: object) -> list[np.ndarray[Any, Any]]:
            return [np.full(x.shape, _failed(x.dtype), x.dtype) for x in ctx.avals_out]

        constants: Callable[..., Any] = mlir.lower_fun(filled, multiple_results=True)
        return constants(ctx, *operands)


def _failed(dtype: np.dtype[Any]) -> object:
    """The element that stands for a failed computation: NaN, the largest integer, or true."""
    if np.issubdtype(dtype, np.integer):
        return np.iinfo(dtype).max
    return True if dtype == np.dtype(bool) else np.nan
